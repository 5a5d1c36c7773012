/*
 * Two copies of one venue's disk on one vault whose confirmed slots may be forked away: epochs, lease, lease wait
 * (settlement.md "Epochs, leases, rollback and forks"). Time is counted in ticks that both copies share.
 *
 * Law: both never have the right to release at once; with CLUSTER, where an opening counts at confirmed and nothing is waited
 * for, not later than one lease after the newest opening landed. Planted faults: WAIT=2 (the wait is as long as the lease), NO_SLOT (an opening seen
 * again in another slot keeps its time).
 */
#ifndef WAIT
#define WAIT 3
#endif
#define LEASE 2
#define CAP 4
#define EPOCHS 3
#ifndef LANDINGS
#define LANDINGS 2
#endif

mtype = { down, sent, waiting, serving };

/* The vault's config at confirmed and at finalized: epoch and who opened it. */
byte epoch_c = 1, epoch_f = 1;
bit holder_c = 0, holder_f = 0;
/* Each landing is in a slot of its own. */
byte slot_c = 0, slots = 0;

typedef Copy {
  mtype phase = down;
  byte target;
  /* Time since the request of the newest answer that showed the own epoch. */
  byte lease_age = CAP;
  /* Time since the opening was first seen confirmed, and in which slot. */
  bit seen;
  byte seen_slot;
  byte wait_age;
  /* A request under way, and what its provider showed. */
  bit asks;
  byte ask_age;
  bit sampled;
  bit shown_own
};
Copy copy[2];
/* Time since the newest landing. */
byte landed_age = CAP;

#define own_c(i) (epoch_c == copy[i].target && holder_c == i)
#define own_f(i) (epoch_f == copy[i].target && holder_f == i)
#define may_release(i) (copy[i].phase == serving && copy[i].lease_age <= LEASE)
#define older(age) age = (age < CAP -> age + 1 : CAP)

inline look(i) {
  if
  :: own_c(i) ->
     if
#ifdef NO_SLOT
     :: !copy[i].seen ->
#else
     :: !copy[i].seen || copy[i].seen_slot != slot_c ->
#endif
        copy[i].seen = 1; copy[i].seen_slot = slot_c; copy[i].wait_age = 0
     :: else
     fi;
     if
#ifdef CLUSTER
     :: true -> copy[i].phase = serving
#else
     :: own_f(i) -> copy[i].phase = waiting
     :: else
#endif
     fi
  :: !own_c(i) && epoch_f >= copy[i].target -> copy[i].phase = down
  :: else -> copy[i].seen = 0
  fi
}

proctype Chain() {
  do
  /* An opening lands, again after a fork: the vault takes the next epoch alone. */
  :: atomic { copy[0].phase == sent && copy[0].target == epoch_c + 1 && slots < LANDINGS ->
       epoch_c++; holder_c = 0; slots++; slot_c = slots; landed_age = 0 }
  :: atomic { copy[1].phase == sent && copy[1].target == epoch_c + 1 && slots < LANDINGS ->
       epoch_c++; holder_c = 1; slots++; slot_c = slots; landed_age = 0 }
  :: atomic { epoch_f != epoch_c -> epoch_f = epoch_c; holder_f = holder_c }
#ifndef CLUSTER
  :: atomic { epoch_c != epoch_f -> epoch_c = epoch_f; holder_c = holder_f; slot_c = 0 }
#endif
  :: atomic {
       older(copy[0].lease_age); older(copy[0].wait_age); older(copy[0].ask_age);
       older(copy[1].lease_age); older(copy[1].wait_age); older(copy[1].ask_age);
       older(landed_age)
     }
  od
}

proctype Venue(bit i) {
  do
  :: atomic { copy[i].phase == down && epoch_f < EPOCHS ->
       copy[i].phase = sent; copy[i].target = epoch_f + 1; copy[i].seen = 0; copy[i].lease_age = CAP;
       copy[i].asks = 0; copy[i].sampled = 0; copy[i].shown_own = 0; copy[i].ask_age = 0; copy[i].wait_age = 0 }
  :: atomic { copy[i].phase == sent -> look(i) }
  :: atomic { copy[i].phase == waiting && copy[i].wait_age >= WAIT -> copy[i].phase = serving }
  :: atomic { (copy[i].phase == waiting || copy[i].phase == serving) && !copy[i].asks ->
       copy[i].asks = 1; copy[i].ask_age = 0; copy[i].sampled = 0; copy[i].shown_own = 0 }
  :: atomic { copy[i].asks && !copy[i].sampled -> copy[i].sampled = 1; copy[i].shown_own = own_c(i) }
  :: atomic { copy[i].asks && copy[i].sampled -> copy[i].asks = 0; copy[i].sampled = 0;
       copy[i].lease_age = (copy[i].shown_own -> copy[i].ask_age : CAP); copy[i].shown_own = 0; copy[i].ask_age = 0 }
  :: atomic { copy[i].phase != down -> copy[i].phase = down; copy[i].lease_age = CAP; copy[i].asks = 0; copy[i].sampled = 0;
       copy[i].shown_own = 0; copy[i].ask_age = 0; copy[i].wait_age = 0; copy[i].seen = 0 }
  od
}

init {
  atomic {
    copy[0].phase = serving; copy[0].target = 1;
    run Chain(); run Venue(0); run Venue(1)
  }
}

active proctype Law() {
#ifdef CLUSTER
  atomic { may_release(0) && may_release(1) && landed_age > LEASE -> assert(false) }
#else
  atomic { may_release(0) && may_release(1) -> assert(false) }
#endif
}
