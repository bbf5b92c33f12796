/* foreign_ttl.pml - no Redisson waiter sleeps past the end of the lock's ttl (docs/protocol.md, section 9).
 *
 * A Redisson client that finds the lock held reads its ttl, and sleeps for so long or until `0` is published on the
 * lock's channel. Its wake-up by a ttl is all that is left when a holder dies. But the ttl that it read is that of the
 * holder of then: who ends a hold may make another one the holder, with another ttl. The lock's holders here are ours.
 * Each may renew, end its hold (the next one's, with a ttl of 1 to LEASE; free; or free for a window), lose it by a
 * break, or die. A full server may refuse the field of the next holder: the lock is free then. All times are relative.
 *
 * Checked   while the waiter sleeps and no message is on its way to it, it wakes no later than the ttl ends.
 * Flags, each takes one guard away:
 *   SILENT          an end that makes another one the holder publishes nothing
 *   SILENT_BREAK    nor does a break
 *   SILENT_REFUSAL  nor an end whose next holder was refused
 *   REACH_...       asserts that something cannot happen; must fail, else the model proves nothing
 * Not here: messages that are lost, and the time that they take (channel_wait.pml). */
/* Shows: P20 */
#ifndef LEASE
#define LEASE 4
#endif

byte ttl = 0;                   /* 0: the lock is free */
bool alive = false;             /* its holder */
bool asleep = false;            /* the waiter, */
byte sleeps = 0;                /* for so long */
bool told = false;              /* `0` is on its way to it, or its permit is there */
byte before;

inline publish() { told = true }

/* The next one's, with any ttl. The message is sent where it is shorter than the one that may have been read. */
inline pass(silent) {
  before = ttl;
  if
  :: ttl = 1 :: ttl = 2 :: ttl = LEASE
  :: ttl = 0; alive = false;                            /* refused */
#ifndef SILENT_REFUSAL
     publish()
#endif
  fi;
  if
  :: ttl > 0 && ttl < before && !silent -> publish()
  :: else
  fi;
  alive = (ttl > 0);
  before = 0
}

proctype Lock() {
  do
  :: atomic { ttl == 0 -> ttl = LEASE; alive = true }
  :: atomic { alive && ttl < LEASE -> ttl = LEASE }     /* renews */
#ifdef SILENT
  :: atomic { alive -> pass(true) }
#else
  :: atomic { alive -> pass(false) }
#endif
  :: atomic { alive -> ttl = 0; alive = false; publish() }      /* nobody is in the queue, or a window is opened */
#ifdef SILENT_BREAK
  :: atomic { ttl > 0 -> pass(true) }
#else
  :: atomic { ttl > 0 -> pass(false) }
#endif
  :: atomic { alive -> alive = false }
  od
}

proctype Waiter() {
  do
  :: atomic { !asleep && ttl > 0 -> asleep = true; sleeps = ttl }
  :: atomic { asleep && told -> told = false; asleep = false; sleeps = 0 }
  :: atomic { asleep && sleeps == 0 ->
#ifdef REACH_TTL
       assert(ttl > 0);
#endif
       asleep = false }
  od
}

proctype World() {
  do
  :: d_step {                                           /* time */
       if :: ttl > 0 -> ttl-- :: else fi;
       if :: ttl == 0 -> alive = false :: else fi;
       if :: asleep && sleeps > 0 -> sleeps-- :: else fi
     }
  :: atomic { asleep && !told ->
#ifdef REACH_SHORTER
       assert(sleeps >= ttl);
#endif
       assert(sleeps <= ttl) }
  od
}

init { atomic { run Lock(); run Waiter(); run World() } }
