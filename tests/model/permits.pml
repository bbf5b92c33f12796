/* permits.pml - permits of a semaphore: none is lost or made, they go out in order, nobody waits for ever
 * (docs/protocol.md, section 20; lua/include_permits.lua). Without SEMAPHORE each permit has a lease besides, as those
 * of section 21, which are granted by the script that gives them back instead (handoff_queue.pml).
 *
 * PERMITS permits, three clients with one wait each, of which client 0 takes BIG at once and the others one. Whoever
 * changes the number of free ones calls the first in the queue, as many as it suffices for, beside those that are set
 * aside for who was called before; each takes by its own command what was set aside for it. A wait asks again when it
 * is called, or by a poll: that is here when a message of its own was lost, when a late copy has taken for it, when a
 * lease is over and it is among the first two, or when somebody was called and did not come. Nothing else wakes it, so
 * who is forgotten waits for ever: a deadlock, which the search reports.
 * DOUBTS: an answer is lost after its command has run, and the command is sent again; or a copy of an acquire comes
 * late, at any time. LOSSES: a call is lost. LEAVES: a wait is given up. KILL: client 2 may die at any time; its lease
 * is over some time later, with SEMAPHORE never. STOP: client 2 may stand still for good while it waits.
 * FOREIGN: a client that knows no queue takes a free permit, and gives it back; the first two waiters hear that.
 * WINDOWS: who gives back may leave the free permits to the foreign client for a time: nobody is called, and who asks
 * without having been called waits until that is over.
 * SEMAPHORE: permits without leases. What was taken and given back is noted; else the lease itself says it.
 *
 * Checked   free and taken permits are together PERMITS after each script, and all free in the end (but for those that
 *           a dead client has taken from a semaphore); who takes leaves enough for all who came before and can be
 *           called, unless FOREIGN; no permit lies idle when one was given back; nobody waits for ever.
 * Flags, each takes one guard away:
 *   JUMP          who asks takes what is free, though others are before it
 *   NO_ID         an acquire that is sent again takes again
 *   NO_NOTE       SEMAPHORE: a release that is sent again gives back again
 *   NO_TOMBSTONE  a wait that is given up, or a permit given back, with a copy on its way leaves none
 *   KEEP_TAKEN    who gives up leaves the queue only; what it took without knowing stays taken
 *   NOT_ASIDE     what is set aside for who was called is called for again
 *   NO_CALL       nobody is called when a permit comes back
 *   CALL_ONE      only the first in the queue is called, though permits are left
 *   LEAVE_QUIET   who gives up calls nobody, though its place may have kept others waiting
 *   NO_POLL       nobody asks but when it is called
 *   NO_MISSED     who was called and does not come keeps its place
 *   NO_RECLAIM    a lease that is over is never given back
 *   NO_WINDOW_END a wait that asked in a window does not ask again when that is over
 *   NO_WINDOW_NEWS the first two do not hear of a window
 *   REACH_...     asserts that something cannot happen; must fail, else the model proves nothing */
/* Shows: P49 */
#ifndef PERMITS
#define PERMITS 1
#endif
#ifndef BIG
#define BIG 1
#endif
#ifndef DOUBTS
#define DOUBTS 0
#endif
#ifndef LOSSES
#define LOSSES 0
#endif
#ifndef LEAVES
#define LEAVES 0
#endif
#ifndef FOREIGN
#define FOREIGN 0
#endif
#ifndef WINDOWS
#define WINDOWS 0
#endif
#define NC 3
#define NEED(c) ((c) == 0 -> BIG : 1)

short free = PERMITS;
bool taken[NC];                 /* as Redis has it: a lease, or the note that it has taken */
bool back[NC];                  /* SEMAPHORE: the note that it has given back */
bool over[NC];                  /* its lease is */
byte q[NC], waiting = 0;        /* clients in the queue */
bool called[NC], missed[NC];    /* missed: it was called, and the time for that is over */
bool tombstone[NC];
bool alive[NC], stands[NC];
bool copy[NC];                  /* a copy of its acquire is on its way */
bool lost[NC];                  /* a call of it was lost */
bool heard[NC];                 /* a message of the foreign client */
byte foreign = 0;               /* how often it took */
bool theirs = false;            /* it has a permit */
chan inbox[NC] = [4] of { bool };
byte windows = 0;               /* how often one was opened */
bool open = false;
bool told[NC];                  /* it asks when the window is over */
byte doubts = 0, losses = 0, leaves = 0, finished = 0;
short debt = 0;                 /* what the check knows to be gone: taken by the dead from a semaphore */

byte i, n, t, g;                  /* 0 between two steps */
short rest;

#define SUM (free + (taken[0] -> NEED(0) : 0) + (taken[1] -> NEED(1) : 0) + (taken[2] -> NEED(2) : 0) + (theirs -> 1 : 0))
#define IN_QUEUE(c) (waiting > 0 && q[0] == c || waiting > 1 && q[1] == c || waiting > 2 && q[2] == c)
#define IS_FIRST(c) (waiting > 0 && q[0] == c || waiting > 1 && q[1] == c)
#define GONE(c) (!alive[c] || missed[c])

inline remove(c) {
  i = 0; n = 0;
  do
  :: i < waiting -> if :: q[i] != c -> q[n] = q[i]; n++ :: else fi; i++
  :: else -> break
  od;
  waiting = n;
  do :: n < NC -> q[n] = 0; n++ :: else -> break od;
  i = 0; n = 0
}

/* Tickets of those that are gone, but for who asks. NC: nobody does. */
inline drop_gone(sender) {
  t = 0;
  do
  :: t < waiting && q[t] != sender && GONE(q[t]) ->
#ifdef REACH_DROP
     assert(waiting == 1);
#endif
     g = q[t]; called[g] = false; missed[g] = false; remove(g); g = 0
  :: t < waiting && !(q[t] != sender && GONE(q[t])) -> t++
  :: t >= waiting -> break
  od;
  t = 0
}

inline call(c) {
  called[c] = true;
  if
  :: losses < LOSSES -> losses++; lost[c] = true
  :: alive[c] -> if :: nfull(inbox[c]) -> inbox[c]!true :: full(inbox[c]) fi
  :: !alive[c]
  fi
}

/* rest: how many of the free ones are not set aside. */
inline leave_aside() {
  rest = free; t = 0;
  do
  :: t < waiting -> if :: called[q[t]] -> rest = rest - NEED(q[t]) :: else fi; t++
  :: else -> break
  od;
  t = 0
}

/* Calls those before `sender`, or all. rest: what is left then; -1: somebody needs more than that. */
inline call_before(sender) {
  drop_gone(sender);
#ifdef NOT_ASIDE
  rest = free;
#else
  leave_aside();
#endif
  t = 0;
  do
  :: t < waiting && called[q[t]] -> t++
  :: t < waiting && !called[q[t]] && q[t] != sender && rest >= NEED(q[t]) ->
     rest = rest - NEED(q[t]); call(q[t]);
#ifdef CALL_ONE
     break
#else
     t++
#endif
  :: t < waiting && !called[q[t]] && q[t] != sender && rest < NEED(q[t]) -> rest = -1; break
  :: else -> break
  od;
  t = 0
}

/* No permit lies idle: the first in the queue that was not called needs more than the rest. */
inline check_idle() {
  leave_aside();
  do
  :: t < waiting && !called[q[t]] -> assert(rest < NEED(q[t]) || GONE(q[t])); break
  :: t < waiting && called[q[t]] -> t++
  :: else -> break
  od;
  rest = 0; t = 0
}

inline reclaim() {
#ifndef NO_RECLAIM
  t = 0;
  do
  :: t < NC ->
     if :: taken[t] && over[t] -> taken[t] = false; over[t] = false; free = free + NEED(t) :: else fi;
     t++
  :: else -> break
  od;
  t = 0
#else
  skip
#endif
}

/* rest >= 0: they suffice for c and all before it. Without a ticket all are. */
inline look_before(c) {
  rest = free - NEED(c); t = 0;
  do
  :: t < waiting && q[t] != c -> if :: !GONE(q[t]) -> rest = rest - NEED(q[t]) :: else fi; t++
  :: else -> break
  od;
  t = 0
}

inline take(c) {
  look_before(c);
  assert(rest >= 0 || foreign); /* the order */
  rest = 0;
  taken[c] = true; over[c] = false; free = free - NEED(c);
  remove(c); called[c] = false; missed[c] = false
}

/* Its answer is left in `mine`. */
inline acquire(c, mine) {
  mine = false;
  if
  :: tombstone[c]
#ifndef NO_ID
  :: !tombstone[c] && taken[c] -> over[c] = false; mine = true
#endif
  :: else ->
     reclaim();
#ifdef JUMP
     rest = free;
#else
     if
     :: called[c] -> rest = free
     :: !called[c] && open -> rest = -1
     :: !called[c] && !open -> call_before(c)
     fi;
#endif
     if
     :: rest >= NEED(c) ->
        rest = 0;
        if
        :: called[c] -> take(c)
        :: !called[c] -> take(c); call_before(NC); rest = 0
        fi;
        mine = true
     :: else ->
        rest = 0;
        if :: !IN_QUEUE(c) -> q[waiting] = c; waiting++ :: else fi;
#ifndef NO_WINDOW_END
        if :: open && !called[c] && free >= NEED(c) -> told[c] = true :: else fi;
#endif
        if :: called[c] -> called[c] = false; missed[c] = false :: else fi
     fi
  fi;
  assert(SUM == PERMITS)
}

/* The message on the channel. */
inline hear() {
#ifndef NO_WINDOW_NEWS
  if :: waiting > 0 -> heard[q[0]] = true :: else fi;
  if :: waiting > 1 -> heard[q[1]] = true :: else fi
#else
  skip
#endif
}

inline give_back(c) {
#ifndef NO_TOMBSTONE
  if :: copy[c] -> tombstone[c] = true :: else fi;      /* a semaphore: the note that it has taken stays */
#endif
  if
#if defined(SEMAPHORE) && !defined(NO_NOTE)
  :: back[c]
#endif
#ifdef SEMAPHORE
#ifdef NO_NOTE
  :: true ->
#else
  :: else ->
#endif
#else
  :: !taken[c]
  :: taken[c] ->
#endif
     free = free + NEED(c); taken[c] = false; back[c] = true; over[c] = false;
#ifndef NO_CALL
     if
     :: windows < WINDOWS && free > 0 -> windows++; open = true; hear()
     :: open -> hear()
     :: !open -> call_before(NC); check_idle()
     fi
#endif
  fi;
  assert(SUM == PERMITS)
}

/* Of an acquire that is given up. */
inline give_up(c) {
#ifndef NO_TOMBSTONE
  if :: copy[c] -> tombstone[c] = true :: else fi;
#endif
  remove(c); called[c] = false; missed[c] = false;
  if
#ifndef KEEP_TAKEN
  :: taken[c] -> taken[c] = false; over[c] = false; free = free + NEED(c)
#endif
  :: else
  fi;
#ifndef LEAVE_QUIET
  call_before(NC); rest = 0
#endif
}

#define SOMETHING_OVER (over[0] || over[1] || over[2])
#define SOMEBODY_MISSED (missed[0] || missed[1] || missed[2])

proctype Client(byte c) {
  bool mine;
  {
  skip;
asks:
  atomic {
    if
    :: acquire(c, mine);
       if :: mine -> goto has :: else fi
    :: doubts < DOUBTS -> doubts++; acquire(c, mine); mine = false; goto asks      /* its answer is lost */
    :: doubts < DOUBTS -> doubts++; copy[c] = true; goto asks                     /* it comes late; sent again */
    :: doubts < DOUBTS && leaves < LEAVES ->                                      /* the same, and given up */
       doubts++; leaves++; acquire(c, mine); mine = false; goto leaves_it
    fi
  }
  if
  :: atomic { inbox[c]?_ -> goto asks }
#ifndef NO_POLL
  :: atomic { told[c] && !open -> told[c] = false; goto asks }
  :: atomic { lost[c] || heard[c] || taken[c] || (SOMETHING_OVER && IS_FIRST(c)) || (SOMEBODY_MISSED && !missed[c]) ->
       lost[c] = false; heard[c] = false;
       goto asks }
#endif
  :: atomic { leaves < LEAVES -> leaves++; goto leaves_it }
  fi;
leaves_it:
  atomic { give_up(c); goto done };
has:
  atomic {
    give_back(c);
    if
    :: doubts < DOUBTS -> doubts++
    :: true -> goto done
    fi
  }
  atomic { give_back(c) };                                                         /* sent again */
done:
  atomic { mine = false; finished++ }
  } unless { atomic { !alive[c] || stands[c] -> finished++ } }
}

proctype World() {
  bool ignored;
end:
  do
  :: atomic { copy[0] -> copy[0] = false; acquire(0, ignored); ignored = false }
  :: atomic { copy[1] -> copy[1] = false; acquire(1, ignored); ignored = false }
#ifdef KILL
  :: atomic { alive[2] && finished < NC -> alive[2] = false;
#ifdef SEMAPHORE
       if :: taken[2] -> debt = NEED(2) :: else fi
#endif
     }
#ifndef SEMAPHORE
  :: atomic { !alive[2] && taken[2] && !over[2] ->
#ifdef REACH_OVER
       assert(waiting == 0);
#endif
       over[2] = true }
#endif
#endif
#ifdef STOP
  :: atomic { !stands[2] && IN_QUEUE(2) -> stands[2] = true }
#endif
  :: atomic { foreign < FOREIGN && !theirs && free > 0 -> foreign++; theirs = true; free-- }
  :: atomic { open ->
#ifdef REACH_WINDOW
       assert(waiting == 0);
#endif
       open = false }
  :: atomic { theirs -> theirs = false; free++;
       if :: waiting > 0 -> heard[q[0]] = true :: else fi;
       if :: waiting > 1 -> heard[q[1]] = true :: else fi }
#ifndef NO_MISSED
  :: atomic { called[2] && (stands[2] || !alive[2] || lost[2]) && !missed[2] -> missed[2] = true }
#endif
  od
}

init {
  atomic {
    alive[0] = true; alive[1] = true; alive[2] = true;
    run Client(0); run Client(1); run Client(2); run World()
  }
  atomic { finished == NC && !theirs && !copy[0] && !copy[1] && (alive[2] || !taken[2] || over[2] || debt) ->
    reclaim();
    assert(free == PERMITS - debt) }
}
