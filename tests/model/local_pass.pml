/* local_pass.pml - threads of a process pass the lock on among themselves (docs/protocol.md).
 *
 * Two processes with two threads each want one lock, process 0's threads
 * TURNS times each and those of process 1 once. A process has one session with Redis: a
 * hold id h, which its threads pass on without a word to Redis, PASSES times at most; then end(h) and, if threads
 * still wait, acquire(h') leave in one stream. Redis passes the lock to the head of its queue. A connection may break:
 * what is on it runs later, in its order, up to any point, and the process sends all that was not answered again. A
 * hold may be lost (its time is over, and the threads see that by the clock); only then may Redis drop it. A thread
 * that waits may leave; the next one goes on under the same h, and after the last one h is ended.
 *
 * Checked   at most one thread of all is valid;
 *           who waits in Redis' queue sees at most PASSES + 1 turns of the other process begin, losses apart;
 *           no acquire finds an older hold of its own process in the lock: nobody waits behind its own end;
 *           no thread waits for ever, and at the end the lock is free and the queue empty, though no lease has ended.
 * Flags, each takes one guard away:
 *   NO_BOUND       threads pass the lock on as long as one waits
 *   CLOSE_LATE     end(h) is written before the session is closed: a newcomer finds it open, and goes in
 *   REOPEN         a session whose end is unsure is taken for held: the next thread goes in
 *   NO_OWN_H       a release ends the process's session, whichever hold the thread had
 *   ACQUIRE_FIRST  acquire(h') overtakes end(h)
 *   NO_REPEAT      an end that was not answered is not sent again
 *   NO_DOUBT       the end of a hold with a copy of its acquire in doubt does not say so
 *   NO_SUCCESSOR   a thread that asked and leaves ends h, though another thread of its process waits for h
 *   REACH_...      asserts that something cannot happen; must fail, else the model proves nothing
 * Simpler than the real thing: an answer is read in the moment in which the server gives it, and so is a grant
 * (handoff_time.pml and handoff_wake.pml have them late and lost). */
/* Shows: P9, S19 (NO_BOUND) */
#ifndef TURNS
#define TURNS 2
#endif
#ifndef PASSES
#define PASSES 1
#endif
#ifndef BREAKS
#define BREAKS 1
#endif
#ifndef LOSSES
#define LOSSES 1
#endif
#ifndef LEAVES
#define LEAVES 1
#endif
#define HOLDS 14
#define STREAM 6

/* The server. */
byte holder = 0;                /* 0: free, else a hold id */
byte q[4], qn = 0;
bool told = false;              /* the holder has the lock by a pass: a grant was sent */
bool tombstone[HOLDS];

/* The network: per process its connection, and one that broke. */
mtype = { acquire, end, end_doubt };
chan live0 = [STREAM] of { mtype, byte };
chan live1 = [STREAM] of { mtype, byte };
chan old = [STREAM] of { mtype, byte };
byte breaks = 0, losses = 0, leaves = 0;

/* The processes. */
mtype = { none, waiting, held };
mtype session[2] = none;
byte h[2], passes[2], owner[2]; /* owner: thread inside, 1 or 2 */
byte from[HOLDS];               /* process of a hold, + 1 */
byte seen[2];                   /* turns of the other process's threads since this one is in the queue */
bool doubt[2];                  /* a copy of the current acquire is on a connection that broke */
bool lost[HOLDS];
byte holds = 0;
chan queue0 = [2] of { byte };   /* threads that wait, in the order they came */
chan queue1 = [2] of { byte };

/* The threads, 0 .. 3: process 0 has 0 and 1. */
byte mine[4];                   /* the hold that it is inside with */
byte finished = 0;
hidden byte i, m, x;
hidden mtype what;

#define VALID(t) (mine[t] != 0 && !lost[mine[t]])
#define EXCLUSION assert(VALID(0) + VALID(1) + VALID(2) + VALID(3) <= 1)
#define QUEUE(p) (p == 0 -> len(queue0) : len(queue1))

inline queued(a) { i = 0; do :: i < qn && q[i] != a -> i++ :: else -> break od }
inline dequeue(a) {
  queued(a);
  if
  :: i < qn -> qn--; do :: i < qn -> q[i] = q[i + 1]; i++ :: else -> break od; q[qn] = 0
  :: else
  fi
}
inline enqueue(a) { queued(a); if :: i == qn -> assert(qn < 4); q[qn] = a; qn++; seen[from[a] - 1] = 0 :: else fi }
inline pass() { if :: holder == 0 && qn > 0 -> holder = q[0]; told = true; dequeue(holder) :: else fi }

inline run_acquire(a) {
  if
  :: tombstone[a] -> skip
  :: !tombstone[a] && holder == a -> skip
  :: !tombstone[a] && holder == 0 && (qn == 0 || q[0] == a) -> dequeue(a); holder = a; told = false
  :: !tombstone[a] && holder == 0 && qn > 0 && q[0] != a -> enqueue(a); pass()
  :: !tombstone[a] && holder != 0 && holder != a ->
     assert(from[holder] != from[a] || lost[holder]);
     enqueue(a)
  fi
}

inline run_end(a, in_doubt) {
  dequeue(a);
  if :: holder == a -> holder = 0; told = false :: else fi;
  pass();
#ifndef NO_DOUBT
  if :: in_doubt -> tombstone[a] = true :: else fi
#endif
}

inline serve(kind, a) {
  if
  :: kind == acquire -> run_acquire(a)
  :: kind != acquire -> run_end(a, (kind == end_doubt))
  fi;
  i = 0
}

inline write(p, kind, a) {
  if
  :: p == 0 -> assert(nfull(live0)); live0!kind, a
  :: p == 1 -> assert(nfull(live1)); live1!kind, a
  fi
}

inline ask(p) {                 /* the first in the queue asks, under a new hold id */
  holds++; assert(holds < HOLDS);
  h[p] = holds; from[holds] = p + 1; session[p] = waiting; doubt[p] = false; passes[p] = 0;
  write(p, acquire, h[p])
}

inline let_in(p) {              /* the first in the queue goes in */
  if :: p == 0 -> queue0?owner[0] :: p == 1 -> queue1?owner[1] fi;
  session[p] = held;
  mine[p * 2 + owner[p] - 1] = h[p];
  EXCLUSION;
  if
  :: losses == 0 -> seen[1 - p]++; queued(h[1 - p]);
     assert(i == qn || h[1 - p] == 0 || seen[1 - p] <= PASSES + 1); i = 0
  :: else
  fi
}

inline close_session(p) {       /* before end(h) is written: nobody goes in any more */
  session[p] = none; owner[p] = 0; passes[p] = 0; seen[p] = 0;
  x = h[p]; h[p] = 0;
#ifdef ACQUIRE_FIRST
  if :: QUEUE(p) > 0 -> m = doubt[p]; ask(p); write(p, (m -> end_doubt : end), x); m = 0 :: else -> write(p, end, x) fi;
#else
  write(p, (doubt[p] -> end_doubt : end), x); doubt[p] = false;
  if :: QUEUE(p) > 0 -> ask(p) :: else fi;
#endif
  x = 0
}

inline release(p, t) {
  x = mine[t]; mine[t] = 0;
  if
#ifndef NO_OWN_H
  :: session[p] != held || h[p] != x -> x = 0           /* lost meanwhile: it was ended, and told */
#else
  :: session[p] != held -> x = 0
#endif
  :: else ->
     x = 0;
     if
#ifdef NO_BOUND
     :: QUEUE(p) > 0 && !lost[h[p]] -> let_in(p)
     :: QUEUE(p) == 0 || lost[h[p]] -> close_session(p)
#else
     :: QUEUE(p) > 0 && !lost[h[p]] && passes[p] < PASSES -> passes[p]++; let_in(p)
     :: QUEUE(p) == 0 || lost[h[p]] || passes[p] == PASSES ->
#ifdef CLOSE_LATE
        if :: QUEUE(p) == 0 -> owner[p] = 0; write(p, end, h[p]) :: else -> close_session(p) fi
#else
        close_session(p)
#endif
#endif
     fi
  fi
}

proctype Thread(byte p; byte n) {
  byte turn = 0;
  do
  :: turn == (p == 0 -> TURNS : 1) -> break
  :: atomic { turn < (p == 0 -> TURNS : 1) -> turn++;                                          /* joins the queue */
       if :: p == 0 -> queue0!n :: p == 1 -> queue1!n fi;
       if
       :: session[p] == none -> ask(p)
#if defined(CLOSE_LATE) || defined(REOPEN)
       :: session[p] == held && owner[p] == 0 && QUEUE(p) == 1 -> let_in(p)
#endif
       :: else
       fi }
     do
     :: atomic { mine[p * 2 + n - 1] != 0 -> release(p, p * 2 + n - 1) } break  /* was let in, goes out */
     :: atomic { mine[p * 2 + n - 1] == 0 && leaves < LEAVES && (p == 0 -> queue0??[eval(n)] : queue1??[eval(n)]) ->
          leaves++;
          if :: p == 0 -> queue0??eval(n) :: p == 1 -> queue1??eval(n) fi;
          if
          :: session[p] == waiting && QUEUE(p) == 0 -> close_session(p)
#ifdef NO_SUCCESSOR
          :: session[p] == waiting && QUEUE(p) > 0 -> write(p, end, h[p])
#endif
          :: else
          fi } break
     od
  od;
  finished++
}

/* What process p reads: the lock is its session's. */
inline yours(p) { if :: session[p] == waiting && h[p] == holder && holder != 0 -> let_in(p) :: else fi }

proctype World() {
  do
  :: atomic { live0?what, m -> serve(what, m); m = 0; yours(0) }
  :: atomic { live1?what, m -> serve(what, m); m = 0; yours(1) }
  :: atomic { old?what, m -> serve(what, m); m = 0 }
  :: atomic { old?what, m -> do :: old?what, m :: empty(old) -> break od; m = 0 }       /* the rest never runs */
  :: atomic { told && session[0] == waiting && holder == h[0] -> yours(0) }                     /* a grant */
  :: atomic { told && session[1] == waiting && holder == h[1] -> yours(1) }
#ifdef CLOSE_LATE
  :: atomic { session[0] == held && owner[0] == 0 ->
       session[0] = none; h[0] = 0; if :: QUEUE(0) > 0 -> ask(0) :: else fi }
  :: atomic { session[1] == held && owner[1] == 0 ->
       session[1] = none; h[1] = 0; if :: QUEUE(1) > 0 -> ask(1) :: else fi }
#endif

  :: atomic { breaks < BREAKS && nempty(live0) && empty(old) -> breaks++;
       i = len(live0);
       do
       :: i > 0 -> i--; live0?what, m; old!what, m;
          if
          :: what == acquire && m == h[0] -> doubt[0] = true; live0!what, m
          :: what == acquire && m != h[0] -> skip                /* nobody waits for it any more */
#ifdef REOPEN
          :: what != acquire -> if :: session[0] == none -> session[0] = held; h[0] = m :: else -> live0!what, m fi
#elif defined(NO_REPEAT)
          :: what != acquire -> skip
#else
          :: what != acquire -> live0!end_doubt, m              /* its acquire may be on that connection too */
#endif
          fi
       :: else -> break
       od;
       i = 0; m = 0 }

  /* Process 0 loses its hold: a thread of it sees the clock, then the server drops it, or the end comes first. */
  :: atomic { losses < LOSSES && session[0] == held && owner[0] != 0 -> losses++; lost[h[0]] = true }
  :: atomic { session[0] == held && lost[h[0]] -> close_session(0)
#ifdef REACH_LOST
       ; assert(mine[0] == 0 && mine[1] == 0)
#endif
     }
  :: atomic { holder != 0 && lost[holder] -> holder = 0; told = false }
  :: atomic { holder == 0 && losses > 0 && session[1] == waiting && empty(live1) ->          /* polls */
       serve(acquire, h[1]); yours(1) }
  :: atomic { holder == 0 && losses > 0 && session[0] == waiting && empty(live0) ->
       serve(acquire, h[0]); yours(0) }

  :: atomic { finished == 4 && empty(live0) && empty(live1) && empty(old) &&
              session[0] == none && session[1] == none -> assert(holder == 0 && qn == 0) } break
  od
}

init { atomic { run Thread(0, 1); run Thread(0, 2); run Thread(1, 1); run Thread(1, 2); run World() } }
