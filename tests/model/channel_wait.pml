/* channel_wait.pml - waiting by the lock's channel loses no wake-up (docs/protocol.md).
 *
 * THREADS threads of one process and another process take the lock in turns. Who finds it held joins the channel,
 * tries again once the subscription is confirmed, parks, and tries again when woken. A release publishes if the server
 * counts a subscriber. One message wakes one waiter. One waiter may leave at any moment (out of time, cancelled), also
 * after it was woken; the others wait for ever. The subscriber connection breaks at any moment, with what is on it.
 * No lease ends here: a waiter that only the ttl would wake is a deadlock, and the search reports that.
 *
 * Checked   one holder; nobody stays parked while the lock is free and nothing is under way;
 *           once all have left, no subscription is left.
 * Flags, each takes one guard away:
 *   NO_SECOND_TRY    the first confirmation makes nobody try again
 *   TRY_UNCONFIRMED  they try again when SUBSCRIBE is sent instead
 *   FORGET_WAKE      a message is not remembered for a waiter that is just trying
 *   KEEP_WAKE        a waiter that was woken and leaves without the lock does not pass the wake on
 *   NO_ASK_AFTER     the confirmation after a reconnect makes nobody try again
 *   NO_RESUBSCRIBE   a waiter that joins while UNSUBSCRIBE is under way takes the channel for subscribed
 *   FIRST_CONFIRM    the first confirmation counts, also for an earlier SUBSCRIBE, and later ones wake nobody
 *   NO_UNSUBSCRIBE   the last waiter leaves the subscription behind
 * TRUST_JOINED takes none away and passes: who joins a channel that is subscribed already may park without another try,
 *   because whoever kept the channel open was woken by that release and passes the wake on, or has the lock.
 *   REACH_...        asserts that something cannot happen; must fail, else the model proves nothing */
/* Shows: P19 */
#ifndef THREADS
#define THREADS 2
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif
#ifndef BREAKS
#define BREAKS 1
#endif
#define FREE 255
#define OTHER 254               /* the other process */

byte holder = FREE;

/* The subscriber connection and the server's end of it. */
mtype = { subscribe, unsubscribe, confirmed, released };
chan up = [12] of { mtype };
chan down = [12] of { mtype };
bool counted = false;           /* the server counts a subscriber */
bool connected = true;
byte breaks = 0;
bool calm = false;              /* no more breaks: none may be what saves a waiter */

/* The process. */
byte refs = 0;                  /* waiters that joined */
bool wanted = false;            /* the newest command for the channel is SUBSCRIBE */
byte unconfirmed = 0;           /* SUBSCRIBEs of this connection that are not confirmed yet */
bool joined[THREADS], woken[THREADS], parked[THREADS];
byte finished = 0;

#define CONFIRMED (connected && wanted && unconfirmed == 0)
#ifdef FORGET_WAKE
#define CAN_WAKE(t) (joined[t] && !woken[t] && parked[t])
#else
#define CAN_WAKE(t) (joined[t] && !woken[t])
#endif

inline command(what) { assert(nfull(up)); up!what }

inline release() {
  holder = FREE;
  if :: counted -> assert(nfull(down)); down!released :: else fi
}

inline wake_one() {
  if
  :: CAN_WAKE(0) -> woken[0] = true
  :: CAN_WAKE(1) -> woken[1] = true
#if THREADS > 2
  :: CAN_WAKE(2) -> woken[2] = true
#endif
  :: else                       /* nobody waits any more, or all will try anyway */
  fi
}

inline wake_all() {
  if :: joined[0] -> woken[0] = true :: else fi;
  if :: joined[1] -> woken[1] = true :: else fi;
#if THREADS > 2
  if :: joined[2] -> woken[2] = true :: else fi
#endif
}

inline join(t) {
  joined[t] = true; refs++;
#ifndef TRUST_JOINED
  woken[t] = CONFIRMED;
#endif
  if
  :: wanted -> skip
#ifdef NO_RESUBSCRIBE
  :: !wanted && up??[unsubscribe] -> wanted = true; woken[t] = true
  :: !wanted && !up??[unsubscribe] ->
#else
  :: !wanted ->
#endif
     wanted = true;
     if :: connected -> command(subscribe); unconfirmed++ :: else fi
  fi
#ifdef TRY_UNCONFIRMED
  ; woken[t] = true
#endif
}

inline leave(t, got) {
  joined[t] = false; parked[t] = false; refs--;
#ifndef KEEP_WAKE
  if :: woken[t] && !got -> wake_one() :: else fi;      /* with the lock: its release publishes */
#endif
  woken[t] = false;
#ifndef NO_UNSUBSCRIBE
  if
  :: refs == 0 -> wanted = false; if :: connected -> command(unsubscribe) :: else fi
  :: else
  fi
#endif
}

inline try(t) { if :: holder == FREE -> holder = t; got = true :: else -> got = false fi }

proctype Waiter(byte t) {
  byte round = 0;
  bool got = false;
  do
  :: round == ROUNDS -> break
  :: round < ROUNDS -> round++;
     atomic { try(t) }
     if
     :: got -> goto inside
     :: else -> atomic { join(t) }
     fi;
     do
     :: atomic { woken[t] -> woken[t] = false; parked[t] = false }
        atomic { try(t); if :: got -> leave(t, true) :: else fi }
        if :: got -> goto inside :: else fi
     :: atomic { !woken[t] && !parked[t] -> parked[t] = true }
     :: atomic { t == 0 -> leave(t, false) } goto outside   /* out of time, or cancelled */
     od;
inside:
     atomic { assert(holder == t); got = false; release() }
outside:
     skip
  od;
  finished++
}

proctype Other() {              /* another client: takes it when it is free, listens to nothing */
  byte round = 0;
  do
  :: round == 2 -> break
  :: atomic { round < 2 && holder == FREE -> holder = OTHER; round++ }
     atomic { assert(holder == OTHER); release() }
  :: atomic { round < 2 -> round++ }
  od;
  finished++
}

proctype Loop() {               /* the process's loop thread: reads the subscriber connection, reconnects */
end:
  do
  :: atomic { connected && down?[confirmed] -> down?confirmed;
#ifdef FIRST_CONFIRM
       if :: unconfirmed > 0 -> unconfirmed = 0; wake_all() :: else fi
#else
       unconfirmed--;
#if !defined(NO_SECOND_TRY) && !defined(TRY_UNCONFIRMED)
       if :: unconfirmed == 0 && breaks == 0 -> wake_all() :: else fi;
#endif
#ifndef NO_ASK_AFTER
       if :: unconfirmed == 0 && breaks > 0 -> wake_all() :: else fi
#endif
#endif
     }
  :: atomic { connected && down?[released] -> down?released;
#ifdef REACH_STALE_MESSAGE
       assert(refs > 0);
#endif
       wake_one() }
  :: atomic { connected && !calm && breaks < BREAKS && (wanted || counted) ->
       breaks++; connected = false; counted = false; unconfirmed = 0;
       do :: up?_ :: empty(up) -> break od;
       do :: down?_ :: empty(down) -> break od
#ifdef REACH_BREAK_PARKED
       ; assert(!parked[0])
#endif
     }
  :: atomic { !calm -> calm = true }
  :: atomic { !connected -> connected = true; if :: wanted -> command(subscribe); unconfirmed++ :: else fi }
  od
}

proctype Server() {
end:
  do
  :: atomic { up?[subscribe] -> up?subscribe; counted = true; assert(nfull(down)); down!confirmed }
  :: atomic { up?[unsubscribe] -> up?unsubscribe; counted = false }
  od
}

init {
  atomic {
    run Waiter(0); run Waiter(1);
#if THREADS > 2
    run Waiter(2);
#endif
    run Other(); run Loop(); run Server()
  }
  finished == THREADS + 1 && empty(up) && empty(down) && connected;
  assert(!counted && refs == 0)
}
