/* shared_reads.pml - readers of a process share a hold (docs/decisions/shared_reads.md; src/lease/shared_hold.c).
 *
 * Readers 0 and 1 are of one process, and read ROUNDS times. The writer is of another process, and writes once. A hold
 * is a number. A reader enters an open hold, or asks Redis, which grants a read while no writer writes or waits. Its
 * answer is read later; the hold is shared from then on, if no other one is. The writer's message may be late, or lost
 * (LOSSES). For how long a hold is open is counted in readers that enter it: TURN. LOSES: a reader finds by its clock
 * that the hold is lost; it works on until it has stopped, as one may in its margin.
 *
 * Checked   no reader is inside, or has not stopped yet, while the writer writes; the hold of a reader inside is in
 *           Redis; no reader enters an open hold when the message has come, and at most MOST do from the writer's
 *           ticket on; all finish, and nothing is left.
 * Flags, each takes one guard away:
 *   RELEASE_ANY    each reader that leaves releases the hold, and not only the last one
 *   KEEP_OPEN      the message does not close the hold
 *   NO_CLOSINGS    an answer that was under way when the message came opens a hold
 *   NO_TURN        an open hold stays open
 *   NO_IDLE_END    an open hold that nobody has is kept
 *   LOSE_ALONE     a reader that loses the hold releases it, and the others keep it
 *   LATE_READER    a reader enters a hold that is closed
 *   REACH_...      asserts that something cannot happen; must fail, else the model proves nothing */
/* Shows: P55 */
#ifndef ROUNDS
#define ROUNDS 3
#endif
#ifndef TURN
#define TURN 2
#endif
#ifndef LOSSES
#define LOSSES 0
#endif
#ifndef LOSES
#define LOSES 0
#endif
#define READERS 2
#define HOLDS 8                 /* more than are ever asked for, and 0 */
#define MOST (TURN + READERS)

/* Redis. */
bool in_redis[HOLDS];
byte reads = 0;                 /* how many of these */
bool ticket = false, writes = false, over = false;

/* The process. */
byte last_h = 0;
byte opened = 0;                /* the open hold; 0: none */
byte turn = 0;                  /* readers that have entered it */
byte has[HOLDS];                /* how many readers have it */
bool shared[HOLDS], lost[HOLDS];
byte closings = 0;
mtype = { outside, asking, inside, stopping };
mtype state[READERS] = outside;
byte h[READERS];

bool message = false;           /* under way */
bool wanted = false;            /* it has come, and the writer still waits */
byte overtaken = 0, losses = 0, loses = 0, finished = 0;

inline release(hold) {
  if
  :: in_redis[hold] -> in_redis[hold] = false; reads--
  :: else
  fi
}

/* The hold that is open is not any more. */
inline close() {
  if
  :: opened > 0 && has[opened] == 0 -> release(opened)
  :: else
  fi;
  opened = 0; turn = 0
}

/* r has stopped, or leaves. */
inline leaves(r) {
  has[h[r]]--;
  if
#ifdef RELEASE_ANY
  :: release(h[r]); if :: opened == h[r] -> opened = 0; turn = 0 :: else fi
#else
  :: has[h[r]] == 0 && opened != h[r] -> release(h[r])
  :: else
#endif
  fi;
  h[r] = 0; state[r] = outside
}

inline enters(r, hold) {
  h[r] = hold; has[hold]++; turn++; state[r] = inside;
  assert(in_redis[hold]);
  assert(!wanted);
  if
  :: ticket -> overtaken++; assert(overtaken <= MOST)
  :: else
  fi;
#ifdef REACH_SHARED
  assert(false);
#endif
}

#ifdef NO_TURN
#define IS_OPEN (opened > 0)
#else
#define IS_OPEN (opened > 0 && turn < TURN)
#endif

proctype Reader(byte r) {
  byte rounds = 0, asked = 0;
again:
  atomic {
    if
    :: IS_OPEN -> enters(r, opened)
#ifdef LATE_READER
    :: opened == 0 && last_h > 0 && has[last_h] > 0 && shared[last_h] -> enters(r, last_h)
#endif
    :: !IS_OPEN ->
#ifdef REACH_TURN
       assert(opened == 0);
#endif
       if :: opened > 0 -> close() :: else fi;
       asked = closings; state[r] = asking
    fi }
  if
  :: state[r] == asking ->
     atomic { !ticket && !writes ->
       last_h++; assert(last_h < HOLDS); h[r] = last_h; in_redis[last_h] = true; reads++ }
     /* the answer is read */
     atomic {
       has[h[r]]++; state[r] = inside;
       if
#ifdef NO_CLOSINGS
       :: opened == 0 -> opened = h[r]; turn = 0; shared[h[r]] = true
#else
       :: opened == 0 && asked == closings -> opened = h[r]; turn = 0; shared[h[r]] = true
#endif
       :: else
       fi;
       assert(!(wanted && opened == h[r])) }
  :: else
  fi;
  do
  :: atomic { state[r] == inside && !lost[h[r]] && loses < LOSES && shared[h[r]] ->
       loses++;
       if :: opened == h[r] -> opened = 0; turn = 0 :: else fi;
#ifdef LOSE_ALONE
       release(h[r]); state[r] = stopping
#else
       lost[h[r]] = true; state[r] = stopping
#endif
#ifdef REACH_LOST
       ; assert(has[h[r]] < 2)
#endif
     }
  :: atomic { state[r] == inside && lost[h[r]] -> state[r] = stopping }
  :: atomic { state[r] == inside && !lost[h[r]] -> assert(in_redis[h[r]]); assert(!writes); leaves(r); break }
  :: atomic { state[r] == stopping -> assert(!writes); leaves(r); break }
  od;
  atomic { rounds++; if :: rounds < ROUNDS -> goto again :: else finished++ fi }
}

/* The loop of the process: the idle hold's alarm. */
proctype Alarm() {
  do
#ifndef NO_IDLE_END
  :: atomic { opened > 0 && has[opened] == 0 ->
#ifdef REACH_IDLE
       assert(false);
#endif
       close() }
#endif
  :: atomic { finished == READERS && opened == 0 -> break }
  od
}

/* The writer's message. */
proctype Message() {
  do
  :: atomic { message && losses < LOSSES -> losses++; message = false; break }
  :: atomic { message ->
       message = false; closings++; wanted = ticket;
#ifdef REACH_WANT
       assert(opened == 0 || has[opened] == 0);
#endif
#ifndef KEEP_OPEN
       close();
#endif
       break }
  :: atomic { !message && over -> break }        /* it did not have to wait */
  od
}

proctype Writer() {
  atomic {
    if
    :: reads > 0 -> ticket = true; message = true
    :: reads == 0 -> writes = true
    fi }
  if
  :: atomic { ticket && reads == 0 -> ticket = false; wanted = false; writes = true }
  :: writes
  fi;
  atomic {
    assert(state[0] != inside && state[1] != inside);
    assert(state[0] != stopping && state[1] != stopping) }
  atomic { !message -> writes = false; over = true }
}

init {
  atomic { run Reader(0); run Reader(1); run Alarm(); run Message(); run Writer() }
  atomic { finished == READERS && opened == 0 && !ticket && !writes -> assert(reads == 0) }
}
