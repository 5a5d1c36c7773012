/*
 * One closed batch, two copies of the disk that holds its close, and a vault that stores commits (matching.md "Close, commit,
 * match"). The host delays every transaction and every answer and starts the second copy, in a later epoch, when it likes.
 *
 * Laws: no copy holds the batch committed while another one holds it void, and a copy that sees the chain beyond `not_after`
 * has decided. Planted faults: NO_LIMIT (the program takes a commit beyond `not_after`), ANY_EPOCH (and one of an earlier
 * epoch), APART (slot and commit are judged from two answers).
 */
#define NOT_AFTER 3
#define LAST 6

mtype = { older, mine, newer };
mtype = { open, committed, void, rolled_back };

/* The vault at confirmed. */
byte slot = 0;
mtype stored = older;
bit epoch = 0;

typedef Copy {
  mtype decision = open;
  /* The answer under way. */
  bit asked;
  byte seen_slot;
  mtype seen_stored;
  bit seen_epoch;
  bit sends
};
Copy copy[2];

proctype Chain() {
  do
  :: atomic { slot < LAST -> slot++ }
  /* Copies of the first epoch sign for it; the commit that a restart sends again is the journaled one. */
#ifdef ANY_EPOCH
  :: atomic { copy[0].sends && stored == older && slot <= NOT_AFTER -> stored = mine }
#else
#ifdef NO_LIMIT
  :: atomic { copy[0].sends && stored == older && epoch == 0 -> stored = mine }
#else
  :: atomic { copy[0].sends && stored == older && epoch == 0 && slot <= NOT_AFTER -> stored = mine }
#endif
#endif
  /* The second copy opens the next epoch; what it closes after its decision is a newer commit. */
  :: atomic { epoch == 0 -> epoch = 1 }
  :: atomic { epoch == 1 && copy[1].decision != open && stored != newer -> stored = newer }
  od
}

proctype Venue(bit i) {
  do
  :: atomic { !copy[i].sends && copy[i].decision == open -> copy[i].sends = 1 }
  :: atomic { !copy[i].asked && copy[i].decision == open ->
       copy[i].asked = 1; copy[i].seen_slot = slot; copy[i].seen_stored = stored; copy[i].seen_epoch = epoch }
#ifdef APART
  :: atomic { copy[i].asked -> copy[i].seen_slot = slot }
#endif
  :: atomic { copy[i].asked ->
       copy[i].asked = 0;
       if
       :: copy[i].seen_stored == mine -> copy[i].decision = committed
       :: copy[i].seen_stored == newer -> copy[i].decision = rolled_back
       :: copy[i].seen_stored == older && (copy[i].seen_slot > NOT_AFTER || copy[i].seen_epoch == 1) ->
          copy[i].decision = void
       :: else -> assert(copy[i].seen_slot <= NOT_AFTER)
       fi;
       copy[i].seen_slot = 0; copy[i].seen_stored = older; copy[i].seen_epoch = 0 }
  od
}

init {
  atomic { copy[0].seen_stored = older; copy[1].seen_stored = older; run Chain(); run Venue(0); run Venue(1) }
}

active proctype Law() {
  atomic {
    (copy[0].decision == committed && copy[1].decision == void) ||
    (copy[0].decision == void && copy[1].decision == committed) -> assert(false)
  }
}
