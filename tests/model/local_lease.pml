/* local_lease.pml - what a holder may believe about its lease, and when (docs/protocol.md).
 *
 * Client A takes the lock ROUNDS times, each time under a new hold id, nests, renews, releases. Its commands travel in
 * order over one connection, which may break: copies on it then run at any later moment, or never, and are not
 * answered. Requests and answers take any time. Client B takes the lock whenever the server would give it. The server's
 * clock may run fast by DRIFT ticks within a lease. An operator may break the lock once. All times are relative, so
 * the runs have no end and the state space has.
 *
 * held_until = send time of the answered copy + lease - drift; `left` is held_until - now.
 *
 * Checked   A, going by its own clock, and B never hold together;
 *           no renewal leaves after end(h) has left, nor after the holding thread has ended;
 *           LOST is told once, before B can hold (unless an operator broke the lock), and after AT_RISK (unless the
 *           server said so); what was told lost is never valid again, and no fresh hold appears beneath a lost one;
 *           after LOST, B cannot hold before A has released each hold of it, or the margin is over (unless an operator
 *           broke the lock);
 *           an acquire that answers OK is valid at that moment; a shorter re-entry never shortens what is left;
 *           when A has ended and no copy is left, the lock is not A's (orphaned hold: not longer than one lease).
 * STALL     A's threads may stand still for any time (SIGSTOP, a starved machine): then telling may come late, and what
 *           remains is that each call compares the clock itself.
 * GIVE_UP   A repeats an unanswered end(h) of a hold no longer than Redis' ttl may last: a lease from the arrival of
 * the           last good answer, and longer by the lease of each renewal and raise that has no answer, as each of them
 * may           run at the last moment. (Ends of holds that A did not get, or of which a copy of the acquire is left,
 * are           repeated until they are answered: what a late acquire does is in retry.pml.)
 * Flags, each takes one guard away:
 *   NO_RAISING          a raise that has no answer does not count for that (fails with GIVE_UP and a long SHORT)
 *   NO_DRIFT            held_until without the drift
 *   FROM_ANSWER         held_until counts from the arrival of the answer
 *   NO_REFRESH          a second copy that finds its own hold answers "yours" without raising the ttl
 *   NO_RAISE_ONLY       PEXPIRE always: a shorter re-entry, or a late one, shortens the server's ttl
 *   NO_MAX              the client takes over the smaller held_until of a shorter re-entry
 *   TAKE_LATE           "yours" counts although nothing is left of it
 *   NO_NOTICE           LOST only when the server says so
 *   NO_MARGIN           LOST at held_until instead of a margin before
 *   NO_RISK             no AT_RISK
 *   NO_CLOCK            calls go by what was told, not by the clock (fails with STALL)
 *   TELL_TWICE          a refused renewal tells LOST whatever was told before
 *   REVIVE              a good answer after LOST makes it held again
 *   REVIVE_OVER         so does one after held_until, before LOST is told (fails with STALL: a call has compared the
 *                       clock by then, and answered LOST)
 *   END_AT_LOST         end(h) is written as soon as LOST was told, and not when A has released, or the margin is over
 *   NO_END_AFTER_LOST   nothing gives the lock back after LOST
 *   FRESH_UNDER_LOST    acquire while a lost hold is not yet released starts a new one
 *   NO_CLOSE_FIRST      end(h) is written before the lease is marked as ending
 *   COLLECT_THEN_SEND   renewals are collected in one step and written in another
 *   RENEW_CREATES       a renewal that finds nothing, or somebody else, takes the lock
 *   KEEP_RENEWING       renewal goes on after the holding thread has ended
 *   NO_TOMBSTONE             ended holds are not remembered (a late acquire revives one; see retry.pml)
 *   REACH_...           asserts that something cannot happen; must fail, else the model proves nothing
 * Simpler than the real thing: every end(h) is remembered in the tombstones, a lease is LEASE ticks, and without
 * GIVE_UP each end(h) is repeated until it is answered. */
/* Shows: P7, S13 (NO_DRIFT) */
#ifndef LEASE
#define LEASE 4
#endif
#ifndef BREAKS
#define BREAKS 1                /* connections that break */
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif
#ifndef B_TRIES
#define B_TRIES 1               /* how often B takes the lock */
#endif
#define DRIFT 1
#ifndef SHORT
#define SHORT 2                 /* fixed lease of a nested acquire, or an extension's */
#endif
#if SHORT > LEASE
#define LONGEST SHORT
#else
#define LONGEST LEASE
#endif
#define RISK 2                  /* AT_RISK so long before held_until */
#ifdef NO_MARGIN
#define MARGIN 0
#else
#define MARGIN 1
#endif
#define SLOTS 3                 /* copies under way at once */
#define B_HOLD 9

/* The server. */
byte holder = 0, ttl = 0;       /* 0: free, 1..ROUNDS: A's hold ids, B_HOLD */
bool ran_fast = false;          /* its clock has gained a tick since the last PEXPIRE */
bool tombstone[ROUNDS + 1];

/* B believes it holds from the moment the server runs its acquire until release or the end of the ttl. */
bool b_holds = false;
byte b_tries = 0;

/* The network: copies in the order they were sent. */
mtype = { none, acquire, renew, nest, end };
mtype kind[SLOTS] = none;
byte id[SLOTS], age[SLOTS], reply[SLOTS];
bool live[SLOTS];               /* its connection is: it keeps the order and its answer will be read */
byte n = 0;
#define UNRUN 0
#define YES 1
#define NO 2
byte breaks = 0;

/* A's session, and its notices. */
mtype = { idle, asking, held, ending, lost };
mtype state = idle;
byte round = 0;                 /* also the hold id */
byte left = 0, count = 0;
bool risk_told = false, lost_told = false;
bool end_due = false;           /* end(h) is to be written, or to be written again */
bool end_kept = false;          /* it is to be written after a loss: when A has released each hold of it, */
byte kept = 0;                  /*   or so long after LOST */
bool on_wire = false;           /* the command that asking or ending waits for is under way */
bool renewing = false;          /* a renewal is under way */
bool nested = false;
byte batch = 0;                 /* hold whose renewal was collected and is not written yet (COLLECT_THEN_SEND) */
bool end_sent[ROUNDS + 1];
byte orphaned = 0;               /* hold whose thread has ended */
byte broken = 0;                /* hold that an operator took away: A learns of it from the server only */
bool over_seen = false;         /* a call has found that no time is left of this hold (STALL) */
bool beneath = false;           /* a lost hold is still on the holder's account below this one (FRESH_UNDER_LOST) */
#ifdef GIVE_UP
byte ends = 0;                  /* so long Redis' ttl lasts at most, by the answers */
byte raising = 0;               /* and so much longer, by what has no answer */
byte owed = 0;                  /* so long end(h) is repeated */
bool doubted = false;           /* a copy of the acquire is or was in doubt */
#endif
byte quiet = 0;                 /* ticks since A has nothing more to do and no copy is left */
hidden byte i, f, v;

#ifdef NO_CLOCK
#define VALID (state == held)
#else
#define VALID (state == held && left > 0)
#endif
#define EXCLUSION assert(!(VALID && b_holds) || broken == round)
#define HONEST assert(!(VALID && (lost_told || over_seen || beneath)))

#if defined(GIVE_UP) && !defined(NO_RAISING)
#define RAISE_OF(what) ((what) == renew -> LEASE : ((what) == nest -> SHORT : 0))
#else
#define RAISE_OF(what) 0
#endif
#ifdef GIVE_UP
#define COUNT_RAISE(what) raising = raising + RAISE_OF(what)
#define KNOW_RAISE(what, hold) if :: (hold) == round -> raising = raising - RAISE_OF(what) :: else fi
#define KNOW_ENDS(lease) if :: ends < (lease) -> ends = (lease) :: else fi
#define FOR_EVER 255
#define OWE if :: state == held && !doubted -> owed = ends + raising :: else -> owed = FOR_EVER fi; ends = 0; raising = 0
#else
#define COUNT_RAISE(what) skip
#define KNOW_RAISE(what, hold) skip
#define KNOW_ENDS(lease) skip
#define OWE skip
#endif

inline send(what, hold) {
  assert(n < SLOTS);
  COUNT_RAISE(what);
  kind[n] = what; id[n] = hold; age[n] = 0; reply[n] = UNRUN; live[n] = true; n++
}

inline drop(k) {
  n--;
  i = k;
  do :: i < n -> kind[i] = kind[i + 1]; id[i] = id[i + 1]; age[i] = age[i + 1]; reply[i] = reply[i + 1];
        live[i] = live[i + 1]; i++ :: else -> break od;
  kind[n] = none; id[n] = 0; age[n] = 0; reply[n] = UNRUN; live[n] = false;
  i = 0
}

inline expire_at(lease) {
#ifdef NO_RAISE_ONLY
  ttl = lease; ran_fast = false
#else
  if :: ttl < lease -> ttl = lease; ran_fast = false :: else fi
#endif
}

/* Runs copy k at the server. */
inline serve(k) {
  reply[k] = NO;
  if
  :: kind[k] == acquire ->
     if
#ifndef NO_TOMBSTONE
     :: tombstone[id[k]] -> skip
#endif
     :: else ->
        if
        :: holder == id[k] -> reply[k] = YES;
#ifndef NO_REFRESH
           expire_at(LEASE)
#endif
        :: holder == 0 -> holder = id[k]; ttl = 0; expire_at(LEASE); reply[k] = YES
        :: else
        fi
     fi
  :: kind[k] == renew || kind[k] == nest ->
     if
     :: holder == id[k] -> reply[k] = YES; if :: kind[k] == renew -> expire_at(LEASE) :: else -> expire_at(SHORT) fi
#ifdef RENEW_CREATES
     :: else -> holder = id[k]; ttl = 0; expire_at(LEASE); reply[k] = YES
#else
     :: else
#endif
     fi
  :: kind[k] == end ->
     if :: holder == id[k] -> holder = 0; ttl = 0; ran_fast = false; reply[k] = YES :: else fi;
     tombstone[id[k]] = true
  fi;
  EXCLUSION
}

inline first_live() {
  f = 0;
  do :: f < n && !live[f] -> f++ :: else -> break od
}

inline lose() {
  assert(!lost_told);
  OWE;
  lost_told = true; state = lost; kept = left; left = 0; renewing = false; on_wire = false;
#if defined(END_AT_LOST)
  end_due = true
#elif !defined(NO_END_AFTER_LOST)
  end_kept = true
#endif
}

/* v = what an answer to copy f, sent age ticks ago, is worth. */
inline worth(lease) {
#if defined(FROM_ANSWER)
  v = lease - DRIFT
#elif defined(NO_DRIFT)
  if :: lease > age[f] -> v = lease - age[f] :: else -> v = 0 fi
#else
  if :: lease > age[f] + DRIFT -> v = lease - DRIFT - age[f] :: else -> v = 0 fi
#endif
}

inline to_ending() { OWE; state = ending; end_due = true; on_wire = false; left = 0; count = 0 }

inline to_idle() {
  state = idle; left = 0; risk_told = false; lost_told = false; over_seen = false; end_due = false; on_wire = false;
  renewing = false; nested = false; kept = 0;
#ifdef GIVE_UP
  ends = 0; raising = 0; owed = 0; doubted = false
#endif
}

/* A reads the answer of copy f. */
inline answered() {
  if
  :: kind[f] == acquire && state == asking && id[f] == round ->
     if
     :: reply[f] == YES -> worth(LEASE);
        if
#ifndef TAKE_LATE
        :: v <= MARGIN -> to_ending()
#endif
        :: else -> state = held; left = v; count = 1; on_wire = false; KNOW_ENDS(LEASE); assert(left > 0); EXCLUSION;
           HONEST
        fi
     :: else -> to_ending()
     fi
  :: (kind[f] == renew || kind[f] == nest) && id[f] == round ->
     if :: kind[f] == renew -> renewing = false; worth(LEASE) :: else -> worth(SHORT) fi;
     if
     :: state == held ->
        KNOW_RAISE(kind[f], id[f]);
        if :: kind[f] == renew -> KNOW_ENDS(LEASE) :: else -> KNOW_ENDS(SHORT) fi
     :: else
     fi;
     if
#ifdef REVIVE_OVER
     :: state == held && reply[f] == YES ->
#else
     :: state == held && reply[f] == YES && left <= MARGIN -> lose()     /* over by the clock: lost, whatever it says */
     :: state == held && reply[f] == YES && left > MARGIN ->
#endif
        i = left;
#ifdef NO_MAX
        left = v;
#else
        if :: v > left -> left = v :: else fi;
#endif
        assert(left >= i);
        i = 0;
        if :: left > RISK -> risk_told = false :: else fi;      /* SAFE */
        EXCLUSION; HONEST
#ifdef TELL_TWICE
     :: reply[f] == NO && (state == held || state == lost) -> lose()
#else
     :: state == held && reply[f] == NO -> lose()
#endif
     :: state == lost && reply[f] == YES ->
#ifdef REACH_LATE_GOOD
        assert(false);
#endif
#ifdef REVIVE
        state = held; left = v; HONEST
#else
        skip
#endif
     :: else
     fi
  :: kind[f] == end && id[f] == round ->
     end_due = false; on_wire = false;
     if
     :: state == lost && count > 0 -> skip              /* its releases will answer LOST */
     :: state == lost || state == ending || state == held -> to_idle()
     :: else
     fi
  :: else
  fi;
  v = 0;
  drop(f)
}

#define FINISHED (state == idle && round == ROUNDS && batch == 0)
/* Time waits for what must be told first, unless A stands still. */
#if defined(STALL) || defined(NO_NOTICE)
#define PROMPT true
#elif defined(NO_RISK)
#define PROMPT (state != held || left > MARGIN)
#else
#define PROMPT (state != held || (left > MARGIN && (left > RISK || risk_told)))
#endif

active proctype World() {
  do
  /* --- the application's threads --- */
  :: atomic { state == idle && round < ROUNDS -> round++; state = asking }
#ifdef FRESH_UNDER_LOST
  :: atomic { state == lost && !end_due && !end_kept && round < ROUNDS -> to_idle(); round++; count = 0; beneath = true;
       state = asking }
#endif
  :: atomic { state == asking -> to_ending() }                                  /* out of time, or cancelled */
  :: atomic { state == held && left > 0 && count == 1 -> count = 2 }            /* nests: a local count */
  :: atomic { state == held && left > 0 && count == 2 && !nested && n < SLOTS -> nested = true; send(nest, round) }
  :: atomic { state == held && count == 2 -> count = 1 }
#ifdef NO_CLOSE_FIRST
  :: atomic { state == held && left > 0 && count == 1 && !end_due -> end_due = true }
#else
  :: atomic { state == held && left > 0 && count == 1 -> to_ending() }  /* outermost release: close, then send */
#endif
#ifdef STALL
  :: atomic { state == held && left == 0 && !over_seen -> over_seen = true }    /* asks how much is left, or nests */
#endif
  :: atomic { state == lost && count > 0 -> count--;
       if :: count == 0 && !end_due && !end_kept -> to_idle() :: else fi }
  :: atomic { state == held && orphaned == 0 ->                             /* its thread ends without release */
       orphaned = round;
#ifndef KEEP_RENEWING
       to_idle(); count = 0
#endif
     }

  /* --- the library: what it writes --- */
  :: atomic { state == asking && !on_wire && n < SLOTS -> send(acquire, round); on_wire = true }
  :: atomic { end_kept && (count == 0 || kept == 0) -> end_kept = false; end_due = true }
  :: atomic { end_due && !on_wire && n < SLOTS -> send(end, round); on_wire = true; end_sent[round] = true }
#ifdef COLLECT_THEN_SEND
  :: atomic { state == held && !renewing && batch == 0 -> batch = round; renewing = true }
  :: atomic { batch != 0 && n < SLOTS -> assert(!end_sent[batch]); send(renew, batch); batch = 0 }
#else
  :: atomic { state == held && !renewing && n < SLOTS ->
       assert(!end_sent[round] && orphaned != round);
       send(renew, round); renewing = true }
#endif

  /* --- the library: what it tells, in time unless it stands still --- */
#ifndef NO_NOTICE
#ifndef NO_RISK
  :: atomic { state == held && left <= RISK && !risk_told -> risk_told = true }
#endif
  :: atomic { state == held && left <= MARGIN ->
#ifndef STALL
       assert(risk_told);
#endif
       lose()
#ifdef REACH_LOST
       ; assert(false)
#endif
     }
#endif

#ifdef GIVE_UP
  :: atomic { end_due && !on_wire && owed == 0 && state != held ->
#ifdef REACH_GIVEN_UP
       assert(false);
#endif
       if :: state == lost && count > 0 -> end_due = false :: else -> to_idle() fi
     }
#endif

  /* --- the network and the server --- */
  :: atomic { n > 0 -> first_live();                            /* the oldest copy on the connection runs */
       do :: f < n && (reply[f] != UNRUN || !live[f]) -> f++ :: else -> break od;
       if :: f < n -> serve(f) :: else fi; f = 0 }
  :: atomic { n > 0 -> first_live();                            /* A reads the oldest answer */
       if :: f < n && reply[f] != UNRUN -> answered() :: else fi; f = 0 }
  :: atomic { n > 0 && !live[0] -> if :: serve(0) :: skip fi; drop(0) }   /* left behind: runs, or is lost */
  :: atomic { n > 1 && !live[1] -> if :: serve(1) :: skip fi; drop(1) }
  :: atomic { n > 2 && !live[2] -> if :: serve(2) :: skip fi; drop(2) }
  :: atomic { breaks < BREAKS && n > 0 && live[n - 1] -> breaks++;
       f = 0;
#ifdef GIVE_UP
       do :: f < n -> if :: kind[f] == acquire -> doubted = true :: else fi; f++ :: else -> break od;
       f = 0;
#endif
       do
       :: f < n && reply[f] != UNRUN -> drop(f)                 /* ran; the answer is lost */
       :: f < n && reply[f] == UNRUN -> live[f] = false; f++
       :: else -> break
       od;
       f = 0; on_wire = false; renewing = false }
  :: atomic { broken == 0 && holder != 0 && holder == round -> broken = holder; holder = 0; ttl = 0; ran_fast = false }

  /* --- B --- */
  :: atomic { holder == 0 && b_tries < B_TRIES ->
       b_tries++; holder = B_HOLD; ttl = LEASE; ran_fast = false; b_holds = true;
       EXCLUSION;
#ifndef STALL
       assert(state != held || broken == round);                /* A was told, or has let go itself */
#endif
       assert(state != lost || broken == round || count == 0 || kept == 0);     /* A has its margin to stop */
#ifdef REACH_B_AFTER_LOSS
       assert(state != lost || broken != 0);
#endif
#ifdef REACH_B_IN_MARGIN
       assert(state != lost || broken != 0 || kept == 0);
#endif
     }
  :: atomic { b_holds -> b_holds = false; if :: holder == B_HOLD -> holder = 0; ttl = 0 :: else fi; ran_fast = false }

  /* --- time --- */
  :: atomic { PROMPT ->
       f = 0;
       do :: f < n -> if :: age[f] < LEASE -> age[f]++ :: else fi; f++ :: else -> break od;
       f = 0;
       if :: left > 0 -> left-- :: else fi;
       if :: kept > 0 -> kept-- :: else fi;
#ifdef GIVE_UP
       if :: ends > 0 -> ends-- :: else fi;
       if :: owed > 0 && owed != FOR_EVER -> owed-- :: else fi;
#endif
       if
       :: ttl > 0 -> ttl--
       :: ttl > 1 && !ran_fast -> ttl = ttl - 2; ran_fast = true
       :: ttl == 0
       fi;
       if
       :: ttl == 0 -> if :: holder == B_HOLD -> b_holds = false :: else fi; holder = 0; ran_fast = false
       :: else
       fi;
       if
       :: FINISHED && n == 0 && holder != 0 && holder != B_HOLD -> quiet++
       :: else -> quiet = 0
       fi;
       assert(quiet <= LONGEST)
#ifdef REACH_QUIET
       ; assert(quiet == 0)
#endif
     }

  /* --- the end --- */
  :: atomic { FINISHED && n == 0 -> assert(holder == 0 || holder == B_HOLD || holder == orphaned);
#ifdef REACH_END
       assert(round < 2);
#endif
       break }
  od
}
