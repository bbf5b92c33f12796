/* condition.pml - a condition variable: no item lies there while a consumer sleeps
 * (include/hasplock/condition.h; lua/include_condition.lua; src/api/condition.c).
 *
 * A producer puts ITEMS items into a queue, each while it holds the lock. It signals before or after it gives the lock
 * up; with BROADCASTS it may broadcast instead. CLIENTS consumers look while they hold the lock. One that finds an item
 * takes it, and ends or comes again. One that finds none enrolls, gives up the lock, and waits. It asks, subscribes,
 * asks again, and after that when a message comes and by time. When it is woken it acquires the lock, says that it is
 * done, and looks again.
 * In Redis: who waits, whose lease is there (one that has a lease and does not wait was signalled), and whose lease is
 * over.
 * A signal goes to any waiter that listens; if there is none, to any whose lease is not over. Waiters whose lease is
 * over are removed. Each question removes them too, and passes on the signals of those that were signalled.
 * KILL: consumer 0 may die at any time until it is done. SLOW: the lease of a live one is over. LOSSES: a message is
 * lost. LEAVES: a wait ends by itself, by its time or by a cancel, and its consumer ends without looking. DATA: all
 * data is lost. DOUBTS: the answer to a signal is lost, and it is sent again.
 * Time passes when all are still: the leases of the dead are over then, a lock that a dead one held is free, and all
 * who wait ask. A waiter may also ask at any time.
 *
 * Checked   when all are still and have asked, there is no item, or no live consumer sleeps.
 * Excepted: a consumer that dies after it was done, and before it has taken the item: its caller's loss.
 * Flags, each takes one guard away:
 *   ENROLL_LATE    a waiter gives up its lock before it enrolls
 *   DONE_EARLY     a waiter is done when it is woken, before it has its lock
 *   NO_RESIGNAL    the signal of a dead waiter is passed on to nobody
 *   NO_PASS_ON     a waiter that was signalled and is cancelled passes its signal on to nobody
 *   LEAVE_BLIND    a wait whose time is over does not look whether it was signalled
 *   KEEP_OVER      a signal leaves waiters there whose lease is over
 *   NO_RECORD      a waiter without a record waits on
 *   NO_POLL        a waiter does not ask by time
 *   NO_ASK_AFTER   a waiter does not ask when its subscription is confirmed
 *   REACH_...      asserts that something cannot happen; must fail, else the model proves nothing */
/* Shows: P54, S41 (NO_RESIGNAL, DONE_EARLY), S42 (NO_RECORD) */
#ifndef CLIENTS
#define CLIENTS 2
#endif
#ifndef ITEMS
#define ITEMS 2
#endif
#ifndef LOSSES
#define LOSSES 0
#endif
#ifndef LEAVES
#define LEAVES 0
#endif
#ifndef SLOW
#define SLOW 0
#endif
#ifndef DATA
#define DATA 0
#endif
#ifndef DOUBTS
#define DOUBTS 0
#endif
#define FREE 7                  /* nobody has the lock */
#define PRODUCER 6
#define BIT(x) (1 << (x))
#define HAS(bits, x) (((bits) >> (x)) & 1)

byte items = 0, lock = FREE;

/* Redis, in bits: clients. */
byte waits = 0, leased = 0, over = 0, listens = 0;

/* The clients. */
mtype = { moves, wants, sleeps, ended };
mtype state[CLIENTS], producer = moves;
bool message[CLIENTS], due[CLIENTS];
byte dead = 0;                  /* bits */
byte losses = 0, leaves = 0, slow = 0, erased = 0, doubts = 0;
bool quiet = false;             /* nothing has changed since all began to ask again */

byte i, n, to;                 /* 0 between two steps */

inline publish(who) {
  if
  :: HAS(listens, who) && losses < LOSSES -> losses++
  :: HAS(listens, who) -> message[who] = true
  :: !HAS(listens, who)
  fi
}

inline signal() {
#ifndef KEEP_OVER
  to = waits & over;
  waits = waits & ~to; leased = leased & ~to; over = over & ~to;
#endif
  to = waits & listens & ~over;
  if :: to == 0 -> to = waits & ~over :: else fi;
  if
  :: to == 0
  :: to != 0 ->
     if
     :: HAS(to, 0) -> n = 0
     :: HAS(to, 1) -> n = 1
     :: HAS(to, 2) -> n = 2
     fi;
     waits = waits & ~BIT(n); quiet = false;
     publish(n);
     n = 0
  fi;
  to = 0
}

inline broadcast() {
  n = 0;
  do
  :: n < CLIENTS && HAS(waits, n) -> publish(n); n++
  :: n < CLIENTS && !HAS(waits, n) -> n++
  :: n == CLIENTS -> break
  od;
  n = 0;
  if
  :: waits != 0 -> waits = 0; leased = 0; over = 0; quiet = false
  :: waits == 0
  fi
}

/* By a question of p, whose lease is not over. */
inline sweep() {
  i = 0;
  do
  :: i < CLIENTS && HAS(leased & over, i) ->
     leased = leased & ~BIT(i); over = over & ~BIT(i); quiet = false;
     if
     :: HAS(waits, i) -> waits = waits & ~BIT(i)
     :: !HAS(waits, i) ->
#ifdef REACH_RESIGNAL
        assert(waits == 0);
#endif
#ifndef NO_RESIGNAL
        signal()
#else
        skip
#endif
     fi;
     i++
  :: i < CLIENTS && !HAS(leased & over, i) -> i++
  :: i == CLIENTS -> break
  od;
  i = 0
}

inline enroll(p) { waits = waits | BIT(p); leased = leased | BIT(p); over = over & ~BIT(p); quiet = false }

inline forget(p) { leased = leased & ~BIT(p); waits = waits & ~BIT(p); over = over & ~BIT(p); quiet = false }

inline wakes(p) { listens = listens & ~BIT(p); message[p] = false; due[p] = false; state[p] = wants; quiet = false }

#ifdef KILL
#define MAY_DIE(p) ((p) == 0 && dead == 0)
#else
#define MAY_DIE(p) false
#endif

proctype Consumer(byte p) {
begins:
  if
  :: atomic { lock == FREE ->
       lock = p; state[p] = moves; quiet = false;
       if :: HAS(leased, p) -> forget(p) :: else fi;                    /* done */
       if
       :: items > 0 -> items--; lock = FREE;
          if
          :: state[p] = wants; goto begins
          :: goto ends
          fi
       :: items == 0 ->
#ifndef ENROLL_LATE
          enroll(p)
#endif
       fi }
  :: atomic { leaves < LEAVES && HAS(leased, p) -> leaves++; state[p] = moves; goto cancels }
  :: atomic { MAY_DIE(p) -> state[p] = moves; goto dies }
  fi;
  if
  :: atomic { lock == p -> lock = FREE; quiet = false }
  :: atomic { MAY_DIE(p) -> state[p] = moves; goto dies }
  fi;
#ifdef ENROLL_LATE
  atomic { enroll(p) };
#endif
asks:
  atomic {
    due[p] = false; state[p] = moves;
    if
    :: HAS(leased, p) && HAS(waits, p) ->
       over = over & ~BIT(p);
       sweep();
       if
       :: HAS(waits, p) -> state[p] = sleeps
       :: !HAS(waits, p) -> goto woken
       fi
    :: HAS(leased, p) && !HAS(waits, p) -> goto woken
    :: !HAS(leased, p) ->
#ifdef NO_RECORD
       state[p] = sleeps
#else
#ifdef REACH_NO_RECORD
       assert(false);
#endif
       goto woken
#endif
    fi
  };
end:
  do
  :: atomic { message[p] -> message[p] = false; state[p] = moves; goto woken }
  :: atomic { !HAS(listens, p) -> listens = listens | BIT(p); quiet = false;
#ifndef NO_ASK_AFTER
       state[p] = moves; goto asks
#endif
     }
#ifndef NO_POLL
  :: atomic { state[p] = moves; goto asks }
#endif
  :: atomic { leaves < LEAVES -> leaves++; state[p] = moves; goto leaving }
  :: atomic { MAY_DIE(p) -> state[p] = moves; goto dies }
  od;
leaving:
  atomic {
    if
    :: HAS(waits, p) -> forget(p); wakes(p); goto ends
    :: !HAS(waits, p) ->
#ifdef REACH_LEFT_SIGNALLED
       assert(!HAS(leased, p));
#endif
#ifdef LEAVE_BLIND
       forget(p); wakes(p); goto ends
#else
       goto woken
#endif
    :: goto cancels
    fi
  };
cancels:
  atomic {
    if
    :: HAS(leased, p) && !HAS(waits, p) ->
       forget(p);
#ifdef REACH_PASS_ON
       assert(waits == 0);
#endif
#ifndef NO_PASS_ON
       signal()
#else
       skip
#endif
    :: else -> forget(p)
    fi;
    wakes(p);
    goto ends
  };
woken:
  atomic {
#ifdef DONE_EARLY
    forget(p);
#endif
    wakes(p);
    goto begins
  };
dies:
  atomic { dead = dead | BIT(p); listens = listens & ~BIT(p); message[p] = false; due[p] = false; quiet = false };
ends:
  atomic { state[p] = ended; quiet = false }
}

proctype Producer() {
  byte made = 0;
  do
  :: made < ITEMS ->
     producer = wants;
     atomic { lock == FREE -> lock = PRODUCER; producer = moves; items++; made++; quiet = false };
     if
     :: atomic { lock = FREE }                          /* it signals afterwards */
     :: skip
     fi;
     if
     :: atomic { signal() }
     :: atomic { doubts < DOUBTS -> doubts++; signal() }; atomic { signal() }
#ifdef BROADCASTS
     :: atomic { broadcast() }
#endif
     fi;
     atomic { if :: lock == PRODUCER -> lock = FREE :: else fi; quiet = false }
  :: made == ITEMS -> break
  od;
  atomic { producer = ended; made = 0; quiet = false }
}

proctype World() {
end:
  do
  :: atomic { slow < SLOW && leased != 0 ->
       slow++; quiet = false;
       if
       :: HAS(leased, 0) -> over = over | 1
       :: HAS(leased, 1) -> over = over | 2
       fi }
  :: atomic { erased < DATA && leased != 0 -> erased++; waits = 0; leased = 0; over = 0; quiet = false }
  od
}

#define DEAD_HOLDS (lock < PRODUCER && HAS(dead, lock))
#define STILL(p) (state[p] == ended || state[p] == wants && DEAD_HOLDS || \
                  state[p] == sleeps && HAS(listens, p) && !due[p] && !message[p])
#if CLIENTS > 2
#define ALL_STILL (STILL(0) && STILL(1) && STILL(2) && (producer == ended || producer == wants && DEAD_HOLDS))
#define ASLEEP (state[0] == sleeps || state[1] == sleeps || state[2] == sleeps)
#else
#define ALL_STILL (STILL(0) && STILL(1) && (producer == ended || producer == wants && DEAD_HOLDS))
#define ASLEEP (state[0] == sleeps || state[1] == sleeps)
#endif

proctype Clock() {
end:
  do
  :: atomic { ALL_STILL && !quiet ->
       quiet = true;
       over = over | (dead & leased);
       if :: DEAD_HOLDS -> lock = FREE; quiet = false :: else fi;
#ifndef NO_POLL
       do :: i < CLIENTS -> due[i] = (state[i] == sleeps); i++ :: else -> break od;
       i = 0
#endif
     }
  :: atomic { ALL_STILL && quiet -> assert(items == 0 || !ASLEEP) }
  od
}

init {
  atomic {
    do :: i < CLIENTS -> state[i] = wants; i++ :: else -> i = 0; break od;
    run Consumer(0); run Consumer(1);
#if CLIENTS > 2
    run Consumer(2);
#endif
    run Producer(); run World(); run Clock()
  }
}
