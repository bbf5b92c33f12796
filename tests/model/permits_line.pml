/* permits_line.pml - leased permits that are passed on within a process (docs/protocol.md, section 21;
 * src/lease/line.c, pass_holds.c). What Redis does is that of permits.pml, for one permit.
 *
 * Holders 0 to 2 are of one process, and holder 3 of another one. Each takes the permit and gives it back TURNS times.
 * Those of the first process either ask Redis or wait in the line. Whether permits are short and holds brief is chosen
 * at random each time, and so is how long the first in line waits for a hold that is passed on before it asks. LEAVES: a wait is given up, also in the moment in which it is given the permit. BREAKS: Redis
 * forgets a hold, and tells its process: that looks at its entries one after the other.
 *
 * Checked   the permit is in one place at each moment; nobody waits for ever, and in the end it is free and no ticket
 *           is left; the other process, once its ticket is there, is overtaken by the turns of the tickets before it;
 *           a hold that was forgotten is nobody's once its process has looked.
 * Flags, each takes one guard away:
 *   JOIN_NOBODY    a holder waits in the line though nobody asks, and none has the permit
 *   LEAVE_QUIET    when the last one that asks has left, the first in line does not ask, though none has the permit
 *   NO_ALARM       the first in line does not ask after a while. That is harmless: another event makes it ask,
 *   LOSE_QUIET       but not when the last hold is lost,
 *   BACK_QUIET       or when a hold goes back to Redis
 *   NO_BOUND       a hold is passed on as long as one waits
 *   NO_WALK        a hold moves from one entry to another while the process looks at them
 *   REACH_...      asserts that something cannot happen; must fail, else the model proves nothing */
/* Shows: P50 */
#ifndef TURNS
#define TURNS 2
#endif
#ifndef PASSES
#define PASSES 2
#endif
#ifndef LEAVES
#define LEAVES 0
#endif
#ifndef BREAKS
#define BREAKS 0
#endif
#define OURS 3
#define ALL 4
#define OTHER 3

/* Redis. */
byte owner = 0;                 /* the hold that has the permit, 1 or 2, never that which it has forgotten; 0: free */
byte q[ALL], tickets = 0;       /* of which holder */
byte overtaken = 0;             /* holders since the other ticket is there */
byte before = 0;                /* turns before it: of each ticket, and of who has the permit */

/* The holders. */
mtype = { none, in_line, asking, waiting, held };
mtype state[ALL] = none;
byte h[ALL], passes[ALL];
bool granted[ALL];
byte line[OURS], n = 0;
byte count = 0;                 /* who asks, of the first process */
bool alarm_set = false;             /* of the line */
bool walks = false;
byte broken = 0;

byte finished = 0, leaves = 0, breaks = 0;
byte i;

inline pop(at) {
  i = at;
  do
  :: i + 1 < n -> line[i] = line[i + 1]; i++
  :: else -> break
  od;
  n--; line[n] = 0; i = 0
}

inline untick(t) {
  i = 0;
  do
  :: i < tickets && q[i] == t -> break
  :: i < tickets && q[i] != t -> i++
  :: i == tickets -> break
  od;
  if
  :: i < tickets ->
     do
     :: i + 1 < tickets -> q[i] = q[i + 1]; i++
     :: else -> break
     od;
     tickets--; q[tickets] = 0
  :: else
  fi;
  i = 0
}

#define MOST ((before + BREAKS) * (PASSES + 1))

inline is_overtaken() {
  if
  :: state[OTHER] == waiting && !granted[OTHER] -> overtaken++; assert(overtaken <= MOST)
  :: else
  fi
}

inline takes(t) {
  owner = (broken == 1 -> 2 : 1); h[t] = owner; passes[t] = 0;
  is_overtaken()
}

/* Redis has the permit again. */
inline free_it() {
  owner = 0;
  if
  :: tickets > 0 -> grantee = q[0]; untick(grantee); granted[grantee] = true; takes(grantee); grantee = 0
  :: else
  fi
}

#define HAS(c) (state[c] == held && h[c] > 0)
#define IN_USE (HAS(0) || HAS(1) || HAS(2))

inline asks(c) {
  state[c] = asking;
  if :: c < OURS -> count++ :: else fi
}

inline first_asks() {
  if
  :: count == 0 && n > 0 -> next = line[0]; pop(0); asks(next); next = 0
  :: else
  fi
}

/* c asks no more. The first in line asks, or waits for a hold that is passed on. */
inline asked(c, left) {
  if
  :: c < OURS ->
     count--;
     if
#ifdef LEAVE_QUIET
     :: left
#endif
     :: first_asks()
     :: count == 0 && n > 0 && IN_USE -> alarm_set = true
     fi
  :: else
  fi
}

inline gives_back(c) {
  if
  :: owner == h[c] -> free_it()
  :: else                                       /* it was broken, and the release says so */
  fi;
  h[c] = 0; passes[c] = 0; grantee = 0
}

#ifdef NO_BOUND
#define IN_TURN(c) true
#else
#define IN_TURN(c) (passes[c] < PASSES)
#endif
#ifdef NO_WALK
#define MAY_MOVE true
#else
#define MAY_MOVE !walks
#endif

inline release(c) {
  state[c] = none;
  if
  :: c < OURS && MAY_MOVE && n > 0 && IN_TURN(c) ->                     /* brief */
     next = line[0]; pop(0);
     h[next] = h[c]; h[c] = 0; passes[next] = passes[c] + 1; passes[c] = 0; state[next] = held; next = 0;
     is_overtaken();
#ifdef REACH_PASS
     assert(false);
#endif
  :: c < OURS && !(MAY_MOVE && n > 0 && IN_TURN(c)) ->
#ifndef BACK_QUIET
     first_asks();
#endif
     gives_back(c)
  :: c < OURS ->                                                        /* it was not brief: all ask */
     do
     :: n > 0 -> next = line[0]; pop(0); asks(next)
     :: else -> next = 0; break
     od;
     gives_back(c)
  :: c == OTHER -> gives_back(c)
  fi
}

proctype Holder(byte c) {
  byte turns = 0, next = 0, grantee = 0;
again:
  atomic {
    if
#ifdef JOIN_NOBODY
    :: c < OURS -> line[n] = c; n++; state[c] = in_line
#else
    :: c < OURS && count > 0 -> line[n] = c; n++; state[c] = in_line
    :: c < OURS && count == 0 && IN_USE -> line[n] = c; n++; state[c] = in_line; alarm_set = true
#endif
    :: c == OTHER || n == 0 -> asks(c)
    fi }
  do
  :: atomic { state[c] == held -> break }
#ifndef NO_ALARM
  :: atomic { state[c] == in_line && line[0] == c && alarm_set -> alarm_set = false; first_asks() }
#endif
  :: atomic { state[c] == asking ->
       if
       :: owner == 0 && tickets == 0 -> takes(c); state[c] = held; asked(c, false); break
       :: else ->
          state[c] = waiting; q[tickets] = c; tickets++;
          if :: c == OTHER -> overtaken = 0; before = tickets :: else fi
       fi }
  :: atomic { state[c] == waiting && granted[c] ->
       granted[c] = false; state[c] = held; asked(c, false);
       if :: c == OTHER -> overtaken = 0; before = 0 :: else fi;
       break }
  :: atomic { leaves < LEAVES && c < OURS && (state[c] == waiting || state[c] == in_line) ->
       leaves++;
       if
       :: state[c] == in_line ->
          i = 0;
          do :: line[i] != c -> i++ :: line[i] == c -> break od;
          next = i; pop(next); next = 0; state[c] = none
       :: state[c] == waiting && granted[c] ->
          granted[c] = false; state[c] = none; asked(c, true); gives_back(c)
       :: state[c] == waiting && !granted[c] ->
          untick(c); state[c] = none; asked(c, true)
       fi;
#ifdef REACH_LEAVE
       assert(false);
#endif
       goto done }
  od;
  atomic {
    if
    :: h[c] > 0 -> release(c)
    :: else -> state[c] = none                  /* it was lost meanwhile */
    fi }
  atomic { turns++; if :: turns < TURNS -> goto again :: else fi }
done:
  atomic { finished++ }
}

/* An operator gives back the hold of somebody else. */
proctype Break() {
  byte grantee = 0, at = 0, next = 0;
  do
  :: atomic { breaks < BREAKS && owner > 0 && h[OTHER] != owner && !granted[0] && !granted[1] && !granted[2] ->
       breaks++; broken = owner; walks = true; free_it(); at = 0 }
     do
     :: atomic { at < OURS ->
          if
          :: state[at] == held && h[at] == broken ->
             h[at] = 0;
#ifndef LOSE_QUIET
             if :: !IN_USE -> first_asks() :: else fi
#endif
          :: else
          fi;
          at++ }
     :: atomic { at == OURS ->
          assert(h[0] != broken && h[1] != broken && h[2] != broken);
#ifdef REACH_BREAK
          assert(false);
#endif
          walks = false; broken = 0; break }
     od
  :: finished == ALL -> break
  :: breaks == BREAKS -> break
  od
}

init {
  atomic { run Holder(0); run Holder(1); run Holder(2); run Holder(OTHER); run Break() }
  atomic { finished == ALL ->
    assert(owner == 0 && tickets == 0 && n == 0 && count == 0) }
}
