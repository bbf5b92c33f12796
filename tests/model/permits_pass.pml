/* permits_pass.pml - permits of a semaphore that are passed on within a process (docs/protocol.md, section 20;
 * src/lease/pass_permits.c). What Redis does is that of permits.pml, for one permit.
 *
 * Calls 0 to 2 are of one process, in one line: its head waiter asks, and has the line's ticket. Call 3 is of another
 * process. Each takes the permit and gives it back TURNS times. A call of the first process that gives it back passes
 * it to the first one behind the head waiter; or to that one, if it is alone and no command of it is on its way, and
 * then its ticket is ended. While calls of the process have permits, the first waiter need not ask at once: it does at
 * the end of the turn, by an alarm, or when a permit goes back to Redis. LOSSES: a call is lost, and its waiter asks
 * after a while. LEAVES: a wait is given up, also in the moment in which it is passed the permit. A reply is read
 * later than it was given.
 *
 * Checked   the permit is in one place at each moment, and free in the end, with no ticket left; nobody waits for ever;
 *           the other process, once its ticket is there, is overtaken by one turn of PASSES, and by one more if the
 *           ticket of the line was there before.
 * Flags, each takes one guard away:
 *   KEEP_TICKET    a ticket is not ended when its waiter is passed the permit
 *   NO_POLL        who was called in vain never asks
 *   DROP_PASSED    who leaves in the moment in which it is passed the permit does not give it back
 *   NO_BOUND       it is passed on as long as one waits
 *   NO_ALARM       who does not ask yet is not woken by the end of the turn, and is not told of a permit that goes back
 *   REACH_...      asserts that something cannot happen; must fail, else the model proves nothing */
/* Shows: P49 */
#ifndef TURNS
#define TURNS 2
#endif
#ifndef PASSES
#define PASSES 2
#endif
#ifndef LOSSES
#define LOSSES 0
#endif
#ifndef LEAVES
#define LEAVES 0
#endif
#define CALLS 3
#define OTHER 1

/* Redis. Ticket 0 is the line's, 1 the other process's. */
short free = 1;
byte q[2], tickets = 0;
bool is_called[2];
bool popen[2];                  /* a message on its way */
bool lost[2];                   /* a message that was lost */
byte overtaken = 0;             /* passes since the other ticket is there */

/* The line. */
mtype = { none, asking, waiting, ending };
mtype state = none;
byte line[CALLS], n = 0;
bool called = false;                            /* its head waiter was called, and has not asked since */
bool answer = false, taken = false;             /* the reply to its command is there; and it has taken */
bool asks = false;                              /* it has to send */
bool got[CALLS], owes[CALLS];
byte passes = 0;
byte in_use = 0;                                /* of the first process */

byte holders = 0, finished = 0, losses = 0, leaves = 0;
byte i;

#define SUM (free + holders)

inline call_next() {
  if
  :: free > 0 && !is_called[0] && !is_called[1] && tickets > 0 ->
     is_called[q[0]] = true;
     if
     :: losses < LOSSES -> losses++; lost[q[0]] = true
     :: true -> popen[q[0]] = true
     fi
  :: else
  fi
}

inline remove(t) {
  if
  :: tickets > 0 && q[0] == t -> q[0] = q[1]; q[1] = 0; tickets--
  :: tickets > 1 && q[0] != t && q[1] == t -> q[1] = 0; tickets--
  :: else
  fi;
  is_called[t] = false; lost[t] = false
}

/* mine: whether it has taken. */
inline acquire(t, mine) {
  if
  :: free > 0 && (is_called[t] || (!is_called[1 - t] && (tickets == 0 || q[0] == t))) ->
     free--; holders++; remove(t); mine = true
  :: else ->
     mine = false;
     if
     :: !(tickets > 0 && q[0] == t || tickets > 1 && q[1] == t) -> q[tickets] = t; tickets++
     :: else
     fi;
     is_called[t] = false; lost[t] = false;
     call_next()
  fi;
  assert(SUM == 1)
}

inline give_back() {
  free++; holders--;
  call_next();
  assert(SUM == 1)
}

inline pop(at) {
  i = at;
  do
  :: i + 1 < n -> line[i] = line[i + 1]; i++
  :: else -> break
  od;
  n--; line[n] = 0; i = 0
}

#ifdef NO_BOUND
#define IN_TURN true
#else
#define IN_TURN (passes < PASSES)
#endif

/* The head waiter is out of the line, and its ticket is over. */
inline promote() {
  called = false;
  if
  :: n > 0 -> state = asking; asks = true
  :: n > 0 && in_use > 0 && IN_TURN -> state = none
  :: n == 0 -> state = none
  fi
}

/* The head waiter w was alone, and has left with the permit. */
inline end_its_ticket(w) {
#ifdef KEEP_TICKET
  promote()
#else
  owes[w] = true; state = ending
#endif
}

#define MAY_PASS (n > 1 || n == 1 && (state == waiting || state == ending || state == none))
#define NO_HEAD (state == ending || state == none)

inline release(w) {
  if
  :: MAY_PASS && IN_TURN ->
     passes++;
     if :: tickets > 0 && (q[0] == OTHER || q[1] == OTHER && tickets > 1) -> overtaken++ :: else fi;
     assert(overtaken <= 2 * PASSES);
     if
     :: n == 1 && !NO_HEAD -> w = line[0]; pop(0); got[w] = true; end_its_ticket(w)
     :: n > 1 && !NO_HEAD -> w = line[1]; pop(1); got[w] = true
     :: NO_HEAD -> w = line[0]; pop(0); got[w] = true
     fi;
     w = 0
  :: else ->
     give_back(); in_use--;
#ifndef NO_ALARM
     if :: state == none -> promote() :: else fi
#endif
  fi
}

inline end_ticket(c) {
  if
  :: owes[c] -> owes[c] = false; remove(0); call_next(); promote()
  :: else
  fi
}

proctype Call(byte c) {
  byte turns = 0, w = 0;
again:
  atomic { line[n] = c; n++; if :: state == none -> promote() :: else fi };
  do
  :: atomic { got[c] ->
       got[c] = false; end_ticket(c);
#ifdef REACH_PASS
       assert(false);
#endif
       break }
  :: atomic { n > 0 && line[0] == c && asks && !got[c] ->                       /* it sends, and Redis runs it */
       asks = false; called = false; state = asking; acquire(0, taken); answer = true }
  :: atomic { n > 0 && line[0] == c && answer && !got[c] ->                     /* it reads the reply */
       answer = false;
       if
       :: taken -> taken = false; passes = 0; in_use++; pop(0); promote(); break
       :: else -> state = waiting; if :: called -> asks = true :: else fi
       fi }
#ifndef NO_ALARM
  :: atomic { n > 0 && line[0] == c && state == none && !got[c] -> state = asking; asks = true }
#endif
#ifdef REACH_LATER
  :: atomic { n > 0 && line[0] == c && state == none -> assert(false) }
#endif
#ifndef NO_POLL
  :: atomic { n > 0 && line[0] == c && state == waiting && lost[0] && !asks -> lost[0] = false; asks = true }
#endif
  :: atomic { leaves < LEAVES && n > 0 && line[0] == c && state == waiting && !asks && !answer ->
       leaves++;
       pop(0); called = false;
       if
       :: n > 0 -> state = asking; asks = true
       :: else -> owes[c] = true; state = ending; end_ticket(c)
       fi;
       goto done }
  :: atomic { leaves < LEAVES && got[c] ->                                      /* it is passed it, and leaves */
       leaves++; got[c] = false; end_ticket(c);
#ifdef DROP_PASSED
       skip;
#else
       give_back(); in_use--;
       if :: state == none -> promote() :: else fi;
#endif
#ifdef REACH_LEAVE
       assert(false);
#endif
       goto done }
  od;
  atomic { release(w); turns++; if :: turns < TURNS -> goto again :: else fi };
done:
  atomic { finished++ }
}

/* Reads the messages of the first process. */
proctype Inbox() {
end:
  do
  :: atomic { popen[0] ->
       popen[0] = false;
       if
       :: n > 0 && (state == asking || state == waiting) ->
          called = true;
          if
          :: state == waiting -> asks = true
          :: else
          fi
       :: else
       fi }
  od
}

proctype Other() {
  byte turns = 0;
  bool mine = false;
again:
  atomic { acquire(1, mine); if :: mine -> overtaken = 0; goto has :: else fi };
  if
  :: atomic { popen[1] -> popen[1] = false; goto again }
  :: atomic { lost[1] -> lost[1] = false; goto again }
  fi;
has:
  atomic { mine = false; give_back(); turns++; if :: turns < TURNS -> goto again :: else fi };
  finished++
}

init {
  atomic { run Call(0); run Call(1); run Call(2); run Inbox(); run Other() }
  atomic { finished == CALLS + 1 ->
    assert(free == 1 && holders == 0 && tickets == 0) }
}
