/*
 * One note of a vault, two copies of its venue, and a chain that forks what is not final (settlement.md "The vault program",
 * "Epochs"): the note is spent by an order, paid out by an exit, or claimed in a frozen vault.
 *
 * Law: its value leaves the note at most once. A challenger is assumed to act within the window in which anyone may cancel a
 * claim. Planted faults: NO_CHALLENGER, ANY_ROOT (an epoch opens whatever batches its journal lacks), SETTLE_FROZEN (a
 * frozen vault settles), ANY_EPOCH (a batch of an earlier epoch lands). REACH: an owner whom the venue ignores is paid
 * (the law reports a claim that was paid).
 */
mtype = { none, asked, served, refused };
mtype = { unclaimed, claimed, cancelled, paid_claim };

typedef Vault {
  bit epoch;
  /* Whether the batch that a copy made, which spends the note for an order or for its exit, has landed. */
  bit landed[2];
  mtype request;
  bit queued;
  bit paid;
  bit frozen;
  mtype claim
};
Vault now, final;

/* The batch in the journal of a copy: nothing, for an order, or for the exit; made by the copy or before the disk was copied. */
mtype = { nothing, for_order, for_exit };
typedef Copy {
  mtype batch = nothing;
  bit maker
};
Copy copy[2];

#define spends (now.landed[0] + now.landed[1])

inline keep(to, from) {
  to.epoch = from.epoch; to.landed[0] = from.landed[0]; to.landed[1] = from.landed[1]; to.request = from.request;
  to.queued = from.queued; to.paid = from.paid; to.frozen = from.frozen; to.claim = from.claim
}

#ifdef SETTLE_FROZEN
#define may_settle true
#else
#define may_settle (!now.frozen)
#endif
#ifdef ANY_EPOCH
#define signs(i) true
#else
#define signs(i) (now.epoch == i)
#endif

proctype Chain() {
  do
  :: atomic { keep(final, now) }
  :: atomic { keep(now, final) }
  /* The second copy opens its epoch where the batches on chain are those of its journal. */
#ifdef ANY_ROOT
  :: atomic { now.epoch == 0 -> now.epoch = 1 }
#else
  :: atomic { now.epoch == 0 && (!now.landed[0] || (copy[1].batch != nothing && copy[1].maker == 0)) -> now.epoch = 1 }
#endif
  od
}

proctype Venue(bit i) {
  do
  /* A command or the final request takes the note, once; the host copies the first disk when it likes. */
  :: atomic { copy[i].batch == nothing && final.request != asked -> copy[i].batch = for_order; copy[i].maker = i }
  :: atomic { copy[i].batch == nothing && final.request == asked -> copy[i].batch = for_exit; copy[i].maker = i }
  :: atomic { i == 1 && copy[1].batch == nothing && copy[0].batch != nothing -> copy[1].batch = copy[0].batch }
  /* Its batch lands once, and again after a fork: batch ids follow one another. */
  :: atomic { copy[i].batch == for_order && !now.landed[copy[i].maker] && signs(i) && may_settle ->
       now.landed[copy[i].maker] = 1 }
  :: atomic { copy[i].batch == for_exit && !now.landed[copy[i].maker] && signs(i) && may_settle && now.request == asked ->
       now.landed[copy[i].maker] = 1; now.request = served; now.queued = 1 }
  od
}

proctype Anyone() {
  do
  :: atomic { now.request == none && !now.frozen -> now.request = asked }
  :: atomic { now.queued && !now.paid -> now.paid = 1; now.queued = 0 }
  :: atomic { now.request == asked && spends > 0 -> now.request = refused }
  /* After the deadline of a request that was neither served nor refused. */
  :: atomic { now.request == asked && !now.frozen -> now.frozen = 1 }
  :: atomic { now.frozen && now.claim == unclaimed -> now.claim = claimed }
  :: atomic { now.claim == claimed && spends > 0 -> now.claim = cancelled }
#ifdef NO_CHALLENGER
  :: atomic { now.claim == claimed -> now.claim = paid_claim }
#else
  :: atomic { now.claim == claimed && spends == 0 -> now.claim = paid_claim }
#endif
  od
}

init {
  atomic {
    now.request = none; now.claim = unclaimed; final.request = none; final.claim = unclaimed;
    run Chain(); run Venue(0); run Venue(1); run Anyone()
  }
}

active proctype Law() {
#ifdef REACH
  atomic { now.claim == paid_claim -> assert(false) }
#else
  atomic { spends + (now.claim == paid_claim) > 1 || now.queued + now.paid > 1 -> assert(false) }
#endif
}
