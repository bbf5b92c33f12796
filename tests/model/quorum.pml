/* quorum.pml - a lock over N masters, of which a majority decides (docs/protocol.md, section 15).
 *
 * Client A acquires the lock by one try, renews it RENEWS times, and releases it. While it holds it, it asks masters
 * that said no again, RETAKES times, for what is left of the hold. Its requests go to all masters, take any time each,
 * and run in order on each connection. A counts the answers that have come, and stops waiting at any moment. Client B
 * takes the lock at any moment at which a majority of the masters grants it, however it reached them: for what A
 * believes its delays make no difference. Time passes in ticks between any two steps. A master may restart RESTARTS
 * times, and then knows no hold. All times are relative, so the runs have no end and the state space has.
 *
 * left = ttl, counted from before the first send. A master that restarted less than a ttl ago does not count.
 *
 * Checked   A and B never hold together, each by its own clock;
 *           when A has ended and its requests have run, no master is held by it.
 * Flags, each takes one guard away:
 *   FROM_ANSWER     left counts from the moment of the majority's last answer
 *   RENEW_ANSWER    the same of a renewal
 *   NO_DELAY        a master that restarted counts at once
 *   SOME            the release goes only to masters whose answer came
 *   MINORITY        one master less than a majority is enough
 *   RENEW_ANY       a renewal counts if any master extended it
 *   REVIVE          a renewal counts also when the hold is over
 *   RETAKE_BEHIND   the release does not come behind a request to take the hold again
 *   REACH_...       asserts that something cannot happen; must fail, else the model proves nothing
 * Simpler than the real thing: clocks do not drift, connections do not break, and nobody tries twice. */
/* Shows: P34, P37, S35 (NO_DELAY), S36 (NO_DELAY), S38 (FROM_ANSWER, RENEW_ANSWER, RENEW_ANY) */
#ifndef N
#define N 3
#endif
#ifndef RESTARTS
#define RESTARTS 0
#endif
#ifndef RENEWS
#define RENEWS 0
#endif
#ifndef RETAKES
#define RETAKES 0
#endif
#ifndef TTL
#define TTL 3
#endif
#ifdef MINORITY
#define NEED (N / 2)
#else
#define NEED (N / 2 + 1)
#endif

/* The masters. */
#define A_HOLD 1
#define B_HOLD 2
byte holder[N], ttl[N];         /* 0: free */
byte young[N];                  /* so long until it counts again */
byte restarts = 0;

/* What of A's is on its way. An answer waits until it is read. */
#define NONE 0
#define SENT 1
#define YES 2
#define NO 3
byte acquire[N], renew[N];
byte retake[N];                 /* 0: not asked again; else for how long. Runs before or after a renewal */
bool release[N];

/* The clients, each by its own clock. */
byte a_left = 0, b_left = 0;
byte asked = 0;                 /* what the renewal that was sent last makes of a_left, if a majority says yes */
bool a_held = false, b_held = false;

#define ALONE assert(!(a_held && a_left > 0 && b_held && b_left > 0))

#ifdef NO_DELAY
#define COUNTS(m) true
#else
#define COUNTS(m) (young[m] == 0)
#endif

active [N] proctype master() {
  byte m = _pid;
end:
  do
  :: atomic { acquire[m] == SENT ->
       if
       :: holder[m] == 0 -> holder[m] = A_HOLD; ttl[m] = TTL;
          if :: COUNTS(m) -> acquire[m] = YES :: else -> acquire[m] = NO fi
       :: else -> acquire[m] = NO
       fi
     }
  :: atomic { renew[m] == SENT && acquire[m] != SENT ->
       if
       :: holder[m] == A_HOLD -> ttl[m] = TTL; renew[m] = YES
       :: else -> renew[m] = NO
       fi
     }
  :: atomic { retake[m] > 0 ->
       if
       :: holder[m] == 0 && COUNTS(m) -> holder[m] = A_HOLD; ttl[m] = retake[m]
       :: holder[m] == A_HOLD && ttl[m] < retake[m] -> ttl[m] = retake[m]
       :: else
       fi;
       retake[m] = 0
     }
#ifdef RETAKE_BEHIND
  :: atomic { release[m] && acquire[m] != SENT && renew[m] != SENT ->
#else
  :: atomic { release[m] && acquire[m] != SENT && renew[m] != SENT && retake[m] == 0 ->
#endif
       release[m] = false;
       if :: holder[m] == A_HOLD -> holder[m] = 0; ttl[m] = 0 :: else fi
     }
  :: atomic { restarts < RESTARTS -> restarts++; holder[m] = 0; ttl[m] = 0; young[m] = TTL }
  od
}

active proctype clock() {
  byte i;
end:
  do
  :: d_step {
       for (i : 0 .. N - 1) {
         if :: ttl[i] == 1 -> ttl[i] = 0; holder[i] = 0 :: ttl[i] > 1 -> ttl[i]-- :: else fi;
         if :: young[i] > 0 -> young[i]-- :: else fi
       }
       if :: a_left > 0 -> a_left-- :: else fi;
       if :: b_left > 0 -> b_left-- :: else fi;
       if :: asked > 0 -> asked-- :: else fi;
       i = 0
     }
  od
}

active proctype A() {
  byte m, yes, renewals = 0, retakes = 0;
  atomic {                                              /* any of them may arrive much later */
    a_left = TTL;
    for (m : 0 .. N - 1) { acquire[m] = SENT }
  }
  atomic {                                              /* at any moment it stops to wait */
    yes = 0;
    for (m : 0 .. N - 1) { if :: acquire[m] == YES -> yes++ :: else fi }
#ifdef FROM_ANSWER
    a_left = TTL;
#endif
    if
    :: yes >= NEED && a_left > 0 ->
       a_held = true;
       ALONE;
#ifdef REACH_MINORITY_AWAY
       assert(acquire[0] == YES);
#endif
    :: else ->
#ifdef REACH_SPLIT
       assert(!(yes > 0 && b_held));
#endif
       skip
    fi
  }
  do
  :: atomic { a_held && a_left > 0 && renewals < RENEWS ->
       renewals++;
       asked = TTL;                                     /* it counts from here */
       for (m : 0 .. N - 1) { renew[m] = SENT }
     }
     atomic {
       yes = 0;
       for (m : 0 .. N - 1) { if :: renew[m] == YES -> yes++ :: else fi }
       if
#ifdef RENEW_ANY
       :: yes > 0 && a_left > 0 ->
#else
#ifdef REVIVE
       :: yes >= NEED ->
#else
       :: yes >= NEED && a_left > 0 ->
#endif
#endif
#ifdef RENEW_ANSWER
          a_left = TTL;
#else
          if :: asked > a_left -> a_left = asked :: else fi;
#endif
          ALONE;
#ifdef REACH_RENEWED
          assert(false);
#endif
#ifdef REACH_RETAKEN
          assert(!(acquire[0] == NO && renew[0] == YES && renew[1] != YES));
#endif
       :: else
       fi
     }
  :: atomic { a_held && a_left > 0 && retakes < RETAKES ->
       retakes++;
       for (m : 0 .. N - 1) { if :: acquire[m] == NO || renew[m] == NO -> retake[m] = a_left :: else fi }
     }
  :: break
  od;
  atomic {
    for (m : 0 .. N - 1) {
#ifdef SOME
      if :: acquire[m] != SENT -> release[m] = true :: else fi
#else
      release[m] = true
#endif
    }
    a_held = false;
    a_left = 0; asked = 0
  }
  atomic {                                              /* all of it has run */
    for (m : 0 .. N - 1) {
      acquire[m] != SENT && renew[m] != SENT && retake[m] == 0 && !release[m]
    }
    for (m : 0 .. N - 1) { assert(holder[m] != A_HOLD) }
  }
}

active proctype B() {
  byte m, yes;
end:
  atomic { a_left >= 0 ->
    yes = 0;
    for (m : 0 .. N - 1) {
      if
      :: holder[m] == 0 && COUNTS(m) -> holder[m] = B_HOLD; ttl[m] = TTL; yes++
      :: true                                           /* out of its reach */
      fi
    }
    b_left = TTL;
    if
    :: yes >= NEED ->
       b_held = true;
       ALONE;
#ifdef REACH_B_AFTER_LOSS
       assert(!a_held);
#endif
    :: else
    fi
  }
}
