/* retry.pml - commands that are repeated, delayed, doubled or swallowed (docs/protocol.md).
 *
 * Client A takes and gives back the lock twice. Any of its commands may lose its connection: that copy stays in the
 * network and runs at ANY later moment, or never, and A sends another copy. A may give up while it asks. While it
 * holds, it renews or counts a nested hold. Client B takes the lock twice, as a Java client would.
 * No lease ends here: that is the worst case for a late copy, since nothing but the rules cleans up behind it.
 *
 * Checked   A and B never hold together; a release finds the hold it means (nobody ended it for us);
 *           once A has finished and all copies have run or vanished, the lock is not A's.
 * RESTART   the server comes back once without its data, as another process; copies to the one before are gone. Then
 *           two may hold, and what is checked is what A says of a release: "done" only if an end found the hold, or
 * else           "lost", or "not known". An end that finds nothing after a copy in doubt is "done" if the process is
 * the one           that last said that the hold is there.
 * Flags, each takes one guard away:
 *   TRUST_REPEAT (with RESTART) an end that finds nothing after a copy in doubt is "done", whichever process says so
 *   FROM_END     (with RESTART) ... if the process is the one that the first copy of the end was sent to
 *   NO_HOLD_ID   the field names the thread, the same in both rounds, instead of the hold
 *   NO_TOMBSTONE      end does not remember holds that ended in doubt, or acquire does not look
 *   NO_DOUBT     A forgets that a copy is in doubt as soon as a later copy is answered
 *   NO_LOOK      renewal and count write the field without looking whether it is there
 *   COUNTING     acquire adds to the count and end takes one off, instead of setting and deleting
 *   NO_UNDO      who gives up while asking sends no end
 *   TOMBSTONE_ENDS    (adds instead of taking away) a copy of the end in doubt writes the tombstones too; passes, as
 * without                it: only a late acquire creates (docs/decisions/tombstone.md)
 *   REACH_...    asserts that something cannot happen; must fail, else the model proves nothing
 * Bound: DOUBTS, how many copies may be left behind in all. The tombstones's own life (tombstone_ms) is taken as longer
 * than any copy's. */
/* Shows: P6, P11 (RESTART) */
#ifndef DOUBTS
#define DOUBTS 4
#endif
#ifdef NO_HOLD_ID
#define FIELD(r) 1
#else
#define FIELD(r) (r)
#endif
#define B_FIELD 9
#ifdef RESTART
#define ALONE(what) skip
#else
#define ALONE(what) assert(what)
#endif

byte field = 0;                 /* of the lock's hash: 0 none, FIELD(1), FIELD(2), B_FIELD */
byte count = 0;                 /* its value; decides only under COUNTING */
bool tombstone[3];                 /* the tombstones */

byte late_acquire[3], late_count[3];    /* copies of round r left behind in the network */
byte late_end[3], late_end_doubt[3];    /* ... of an end without and with "doubt" */
byte doubts = 0;

byte process = 0;               /* the server's, counted */
bool ended[3];                  /* an end of round r has found its hold */

bool in_a = false, in_b = false, done_a = false, done_b = false;

inline run_acquire(r, ok) {
  if
#ifndef NO_TOMBSTONE
  :: tombstone[r] -> ok = false
#endif
  :: else ->
     if
     :: field == 0 -> field = FIELD(r); count = 1; ok = true
     :: field == FIELD(r) -> ok = true;
#ifdef COUNTING
        count++
#endif
     :: else -> ok = false
     fi
  fi
}

inline run_count(r) {           /* reacquire and renew: for this model the same, they touch the field of a hold */
  if
  :: field == FIELD(r) -> skip
#ifdef NO_LOOK
  :: else -> field = FIELD(r); count = 1
#else
  :: else -> skip
#endif
  fi
}

inline run_end(r, doubt, ok) {
  ok = (field == FIELD(r));
  if
  :: ok -> ended[r] = true;
#ifdef COUNTING
     count--;
     if :: count == 0 -> field = 0 :: else fi
#else
     field = 0; count = 0
#endif
  :: else
  fi;
  if :: doubt -> tombstone[r] = true :: else fi
}

active proctype A() {
  byte r, known;
  bool ok, doubt, first;
  for (r : 1 .. 2) {
    ok = false; doubt = false; known = 0;
    do                                                  /* ask, until it is ours or we give up */
    :: atomic { !ok && doubts < DOUBTS -> late_acquire[r]++; doubts++; doubt = true }
    :: atomic { !ok -> run_acquire(r, ok); known = process;
#ifdef NO_DOUBT
         doubt = false
#endif
       }
    :: ok -> break
    :: !ok -> break                                     /* gives up: out of time, or cancelled */
    od;
    if
    :: ok ->
       in_a = true;
       ALONE(!in_b);
       do
       :: atomic { doubts < DOUBTS -> late_count[r]++; doubts++ }
       :: atomic { run_count(r); if :: field == FIELD(r) -> known = process :: else fi } break
       :: break
       od;
       ALONE(!in_b);
       in_a = false
    :: else
    fi;
#ifdef NO_UNDO
    if :: !ok -> goto next :: else fi;
#endif
    first = true;
#ifdef FROM_END
    known = process;
#endif
    do                                                  /* end, repeated until one copy is answered */
    :: atomic { doubts < DOUBTS ->
         if :: doubt -> late_end_doubt[r]++ :: else -> late_end[r]++ fi;
         doubts++; first = false;
#ifdef TOMBSTONE_ENDS
         doubt = true
#endif
       }
    :: atomic {
         if
         :: ok -> run_end(r, doubt, ok);
#ifdef RESTART
            if
            :: ok -> skip                               /* done */
            :: !ok && first -> skip                     /* lost */
#ifdef TRUST_REPEAT
            :: !ok && !first -> assert(ended[r])        /* done */
#else
            :: !ok && !first && process == known -> assert(ended[r])    /* done */
            :: !ok && !first && process != known ->     /* not known */
#ifdef REACH_NOT_KNOWN
               assert(false)
#else
               skip
#endif
#endif
            fi
#else
            assert(ok || !first)                        /* what we hold is there, unless an earlier copy ran */
#endif
         :: else -> run_end(r, doubt, ok)
         fi
       } break
    od;
next: skip
  }
  done_a = true
}

active proctype Network() {     /* copies left behind run whenever they like, or get lost */
  byte r; bool ok;
  do
  :: atomic { late_acquire[1] > 0 -> late_acquire[1]--; if :: run_acquire(1, ok) :: skip fi; ok = false }
  :: atomic { late_acquire[2] > 0 -> late_acquire[2]--; if :: run_acquire(2, ok) :: skip fi; ok = false }
  :: atomic { late_count[1] > 0 -> late_count[1]--; if :: run_count(1) :: skip fi }
  :: atomic { late_count[2] > 0 -> late_count[2]--; if :: run_count(2) :: skip fi }
  :: atomic { late_end[1] > 0 -> late_end[1]--; if :: run_end(1, false, ok) :: skip fi; ok = false }
  :: atomic { late_end[2] > 0 -> late_end[2]--; if :: run_end(2, false, ok) :: skip fi; ok = false }
  :: atomic { late_end_doubt[1] > 0 -> late_end_doubt[1]--; if :: run_end(1, true, ok) :: skip fi; ok = false }
  :: atomic { late_end_doubt[2] > 0 -> late_end_doubt[2]--; if :: run_end(2, true, ok) :: skip fi; ok = false }
  :: done_a && done_b && late_acquire[1] + late_acquire[2] + late_count[1] + late_count[2] + late_end[1] +
     late_end[2] + late_end_doubt[1] + late_end_doubt[2] == 0 -> break
  od;
  assert(field == 0);
#ifdef REACH_TOMBSTONE
  assert(!tombstone[1] || !tombstone[2])
#endif
}

#ifdef RESTART
active proctype Restart() {
  if
  :: atomic {
       process++; field = 0; count = 0; tombstone[1] = false; tombstone[2] = false;
       late_acquire[1] = 0; late_acquire[2] = 0; late_count[1] = 0; late_count[2] = 0;
       late_end[1] = 0; late_end[2] = 0; late_end_doubt[1] = 0; late_end_doubt[2] = 0
     }
  :: skip
  fi
}
#endif

active proctype B() {
  byte n = 0;
  bool got;
  do
  :: n < 2 ->
     n++;
     atomic { if :: field == 0 -> field = B_FIELD; got = true :: else -> got = false fi };
     if
     :: got ->
        in_b = true;
        ALONE(!in_a);
#ifdef REACH_B_BETWEEN
        assert(!(tombstone[1] && late_acquire[1] > 0));
#endif
        in_b = false;
        atomic { ALONE(field == B_FIELD); if :: field == B_FIELD -> field = 0 :: else fi }
     :: else
     fi
  :: break
  od;
  done_b = true
}
