/* multilock.pml - callers that acquire several locks, all or none (docs/decisions/multilock.md;
 * src/multilock/multilock_plan.c).
 *
 * CALLERS callers acquire and release multilocks without end, each of two members at least, chosen at random. Each
 * member has a queue. Every command is a step of its own, as if each member were on its own server. A caller tries all
 * that it lacks, keeps those before the first busy one, and waits for that one for a slice. After the slice it gives
 * all back, waits for the busy one while it holds nothing, and only tries the others. If one of them is busy, it gives
 * all back and begins again in order.
 * A foreign party holds the last member for LONG steps of time, ROUNDS times. OPPOSITE: it then waits for the first
 * member, and keeps the last one meanwhile.
 * A step of time passes when all wait or are asleep. A slice lasts one step or two. EARLY slices end at any moment.
 * Holds of the callers last no time, or one step.
 *
 * Checked   somebody always gets all of its members again: no cycle of steps without that; no deadlock;
 *           the foreign party waits for at most two steps of time for each caller, which is a slice.
 * Flags, each takes one guard away:
 *   KEEP_FIRST    a caller that waited while it held nothing waits for the others too, and holds that one meanwhile
 *   WAIT_NEXT     if a try fails, the caller does not begin in order: it waits for the busy one, holding nothing
 *   UNSORTED      each caller has an order of its own
 *   NO_SLICE      a caller that holds some waits for the next one for ever
 * ONE_BY_ONE takes none away: members are tried until the first busy one, as those over several masters.
 *   REACH_...     asserts that something cannot happen; must fail, else the model proves nothing */
/* Shows: P52 */
#ifndef CALLERS
#define CALLERS 2
#endif
#ifndef MEMBERS
#define MEMBERS 3
#endif
#ifndef LONG
#define LONG 2
#endif
#ifndef ROUNDS
#define ROUNDS 1
#endif
#ifndef EARLY
#define EARLY 0
#endif
#define ALL (CALLERS + 1)
#define FOREIGN CALLERS
#define NOBODY 15
#define NONE 15
#define LAST (MEMBERS - 1)

byte owner[MEMBERS];
chan queue[MEMBERS] = [ALL] of { byte };

byte wants[CALLERS];            /* bits: members of its multilock */
byte waits[ALL];                /* for that member; NONE */
byte slice[CALLERS];            /* steps of time that its wait may last; 0: for ever */
bool over[CALLERS];             /* that slice has ended */
byte asleep[ALL];               /* holds for so many steps of time */
bool gone = false;              /* the foreign party */
byte waited = 0, early = 0;     /* steps of time that it waited; slices that ended early */

#define HAS(bits, m) ((bits >> (m)) & 1)
#define BLOCKED(p) (asleep[p] > 0 || (waits[p] != NONE && owner[waits[p]] != p))
#define STILL(c) (BLOCKED(c) && !over[c])
#if CALLERS > 2
#define ALL_STILL (STILL(0) && STILL(1) && STILL(2) && (gone || BLOCKED(FOREIGN)))
#define IN_SLICE (slice[0] > 0 || slice[1] > 0 || slice[2] > 0)
#define ASLEEP (asleep[0] > 0 || asleep[1] > 0 || asleep[2] > 0 || asleep[FOREIGN] > 0)
#else
#define ALL_STILL (STILL(0) && STILL(1) && (gone || BLOCKED(FOREIGN)))
#define IN_SLICE (slice[0] > 0 || slice[1] > 0)
#define ASLEEP (asleep[0] > 0 || asleep[1] > 0 || asleep[FOREIGN] > 0)
#endif

inline give(m) {
  if
  :: nempty(queue[m]) -> queue[m]?owner[m]
  :: empty(queue[m]) -> owner[m] = NOBODY
  fi
}

inline wait_for(p, m) {
  waits[p] = m;
  if :: owner[m] == NOBODY -> owner[m] = p :: else -> queue[m]!p fi
}

/* The member at place p of the order: `first`, if there is one, and then the others. */
#ifdef UNSORTED
#define NAME(p) (((p) + c) % MEMBERS)
#else
#define NAME(p) (p)
#endif
#define AT(p) (first == NONE -> NAME(p) : (p == 0 -> first : (p <= first -> (p) - 1 : (p))))

/* Gives back what is at that place and behind. */
inline give_back(from) {
  p = MEMBERS;
  do
  :: atomic { p > from ->
       do
       :: p > from && !HAS(held, AT(p - 1)) -> p--
       :: p > from && HAS(held, AT(p - 1)) -> p--; m = AT(p); held = held - (1 << m); give(m); m = 0; break
       :: p == from -> break
       od }
  :: atomic { p == from -> p = 0; break }
  od
}

#define LACKS(p) (p < MEMBERS && HAS(wants[c], AT(p)) && !HAS(held, AT(p)))
#ifdef ONE_BY_ONE
#define TRIES(p) (LACKS(p) && busy == NONE)
#else
#define TRIES(p) LACKS(p)
#endif

proctype Caller(byte c) {
  byte first = NONE, held = 0, busy = NONE, p = 0, m = 0;
in_order:
  first = NONE;
try:
  do
  :: atomic { TRIES(p) ->
       if
       :: owner[AT(p)] == NOBODY -> m = AT(p); owner[m] = c; held = held | (1 << m); m = 0
       :: owner[AT(p)] != NOBODY && busy == NONE -> busy = p
       :: owner[AT(p)] != NOBODY && busy != NONE
       fi;
       p++ }
  :: atomic { p < MEMBERS && !TRIES(p) -> p++ }
  :: atomic { p == MEMBERS -> p = 0; break }
  od;
  if
  :: busy == NONE -> goto got
#ifndef KEEP_FIRST
  :: busy != NONE && first != NONE ->
#ifdef REACH_BUSY
     assert(false);
#endif
#ifdef WAIT_NEXT
     atomic { busy = AT(busy); give_back(0); first = busy }; goto wait
#else
     busy = NONE; give_back(0); goto in_order
#endif
  :: busy != NONE && first == NONE ->
#else
  :: busy != NONE ->
#endif
     give_back(busy + 1); busy = AT(busy)
  fi;
wait:
  atomic { wait_for(c, busy);
#ifndef NO_SLICE
    slice[c] = (held > 0 -> 2 : 0)
#endif
  }
  if
  :: atomic { owner[busy] == c ->
       waits[c] = NONE; slice[c] = 0; over[c] = false; held = held | (1 << busy); busy = NONE };
     goto try
  :: atomic { over[c] && owner[busy] != c ->
       queue[busy]??eval(c); waits[c] = NONE; slice[c] = 0; over[c] = false };
#ifdef REACH_SLICE
     assert(false);
#endif
     give_back(0); first = busy;
#ifdef KEEP_FIRST
     busy = NONE; goto try
#else
     goto wait
#endif
  fi;
got:
progress:
#ifdef REACH_FIRST
  assert(first == NONE);
#endif
  if :: asleep[c] = 1; asleep[c] == 0 :: skip fi;
  first = NONE; give_back(0);
  goto in_order
}

proctype Foreign() {
  byte round = 0;
  do
  :: round < ROUNDS -> round++;
     atomic { wait_for(FOREIGN, LAST) };
     atomic { owner[LAST] == FOREIGN -> waits[FOREIGN] = NONE; asleep[FOREIGN] = LONG };
     asleep[FOREIGN] == 0;
#ifdef OPPOSITE
     atomic { waited = 0; wait_for(FOREIGN, 0) };
     atomic { owner[0] == FOREIGN -> waits[FOREIGN] = NONE; waited = 0 };
     atomic { give(0) };
#endif
     atomic { give(LAST) }
  :: round == ROUNDS -> break
  od;
  gone = true
}

inline pass(c) {
  if
  :: slice[c] == 0
  :: slice[c] == 1 -> over[c] = true; slice[c] = 0
  :: slice[c] == 2 -> over[c] = true; slice[c] = 0
  :: slice[c] == 2 -> slice[c] = 1
  fi
}

inline sleep_on(p) { if :: asleep[p] > 0 -> asleep[p]-- :: else fi }

proctype Clock() {
end:
  do
  :: atomic { ALL_STILL ->
       assert(IN_SLICE || ASLEEP);              /* else a deadlock */
       if
       :: waits[FOREIGN] == 0 -> waited++; assert(waited <= 2 * CALLERS)
       :: else
       fi;
       pass(0); pass(1);
       sleep_on(0); sleep_on(1); sleep_on(FOREIGN);
#if CALLERS > 2
       pass(2); sleep_on(2)
#endif
     }
#if EARLY > 0
  :: atomic { early < EARLY && slice[0] > 0 -> early++; over[0] = true; slice[0] = 0 }
  :: atomic { early < EARLY && slice[1] > 0 -> early++; over[1] = true; slice[1] = 0 }
#endif
  od
}

/* Two members at least. Which caller has which of these multilocks makes no difference. */
inline choose(c, least) {
  if
  :: wants[c] = (1 << MEMBERS) - 1
#if MEMBERS > 2
  :: least <= 3 -> wants[c] = 3
  :: least <= 5 -> wants[c] = 5
  :: least <= 6 -> wants[c] = 6
#endif
  fi
}

init {
  atomic {
    byte i = 0;
    do :: i < MEMBERS -> owner[i] = NOBODY; i++ :: else -> break od;
    i = 0;
    do :: i < ALL -> waits[i] = NONE; i++ :: else -> i = 0; break od;
    choose(0, 0); choose(1, wants[0]); run Caller(0); run Caller(1);
#if CALLERS > 2
    choose(2, wants[1]); run Caller(2);
#endif
    run Foreign(); run Clock()
  }
}
