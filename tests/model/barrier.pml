/* barrier.pml - a cyclic barrier: nobody passes before all have arrived, and nobody waits for ever
 * (include/hasplock/barrier.h; lua/include_barrier.lua).
 *
 * CLIENTS clients, each with one slot, await ROUNDS times a barrier of PARTIES parties. Each await has a hold number of
 * its own. Its command `arrive` names a generation that the client knows; Redis lets it arrive only if that is one of
 * the data that it has now. A client that knows none, or another one, gets the number and sends again. If an earlier
 * attempt of that await may have run, the await is answered "data lost" instead. A waiter sends `arrive` again when its
 * subscription is confirmed, after a message, and by time. A wait that ends by itself sends `leave` and uses its
 * answer.
 * In Redis the client names the first generation of the data, which is the same test. A broken generation is noted in
 * the record of each who had arrived in it.
 * Two keys: a hash (generation, records, number of those who have arrived) and a set (who they are, with leases).
 * DOUBTS: an answer is lost after its command has run, or the command runs late, at any time; in both cases it is sent
 * again, or the wait ends. LOSSES: a message to one client is lost. LEAVES: a wait ends by itself. DATA: all data is
 * lost. PARTS: one of the two keys is lost. SLOW: the lease of a client that lives is over. RESETS: the generation is
 * broken from outside. KILL: client 0 may die at any time. BACK: the numbers of new data are below those of the old.
 * Time passes when all are still: the leases of the dead are over then, and all waiters send again. A waiter may also
 * send again at any time.
 *
 * Checked   who passes a generation has arrived in it, as have awaits of PARTIES clients; none of these passes another
 *           generation, or is answered that it does not pass; each who passes has another index below PARTIES, and all
 *           of these are given; nobody passes by data that came after its own arrival.
 *           When all are still and have sent again, nobody waits in a generation that is over, or with the dead. All
 *           awaits pass when there are no leaves, deaths, resets, slow clients and lost data.
 *           Excepted: an await whose leave was not answered, one of the dead, and one that is answered "data lost".
 * Flags, each takes one guard away:
 *   NO_HOLD        an attempt that is sent again arrives again
 *   NO_LATE        a late attempt of an earlier await arrives
 *   NO_TOMBSTONE   a leave before the arrival writes none
 *   LATE_LEAVE     a late leave of an earlier await ends the later one
 *   OWN_STANDS     an earlier arrival of the same party, whose leave did not come, stands when the party arrives anew
 *   NO_SEEN        lost data: who waits arrives anew
 *   SEEN_ANSWERED  an attempt names a generation only when an answer to this await has named it
 *   LEAVE_UNSEEN   a leave names no generation
 *   NO_DOUBT       who is answered another generation sends again, although an earlier attempt may have run
 *   NO_SINCE       a generation from before the data is taken for one of it
 *   NO_ABOVE       BACK: likewise one above it
 *   REUSE_NUMBERS  new data begins with number 1 again
 *   NO_BROKEN_NOTE a broken generation counts as passed
 *   FORGET=n       a break forgets the generations that are n or more before it
 *   NO_COUNT       the set of those who have arrived is lost, and nobody notices
 *   NO_LEASE       an arrival has none
 *   NO_POLL        a waiter does not send again by time
 *   NO_ASK_AFTER   a waiter does not send again when its subscription is confirmed
 *   LEAVE_QUIET    a leave publishes nothing
 *   LEAVE_BLIND    a wait that ends by itself does not use the answer of its leave
 *   REACH_...      asserts that something cannot happen; must fail, else the model proves nothing */
/* Shows: P51, S7 (NO_LEASE, NO_SEEN) */
#ifndef CLIENTS
#define CLIENTS 2
#endif
#ifndef PARTIES
#define PARTIES 2
#endif
#ifndef ROUNDS
#define ROUNDS 2
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
#ifndef DATA
#define DATA 0
#endif
#ifndef PARTS
#define PARTS 0
#endif
#ifndef SLOW
#define SLOW 0
#endif
#ifndef RESETS
#define RESETS 0
#endif
#define MOST 14                 /* generations */
#define BIT(x) (1 << (x))
#define HAS(bits, x) (((bits) >> (x)) & 1)

/* Redis: the hash, */
bool data = false;
byte gen = 0, since = 0, count = 0;
int broken = 0;                 /* bits: generations */
byte hold[CLIENTS], rgen[CLIENTS], rindex[CLIENTS];
bool left[CLIENTS];
/* and the set. */
byte arrived = 0, over = 0;     /* bits: clients; those whose leases are over */
#ifdef BACK
byte fresh = 7;
#else
byte fresh = 1;                 /* the first number of the next data */
#endif

/* The answer. */
mtype = { none, waiting, passed, is_broken, lost, other, late, is_left };
mtype ans = none;
byte ag = 0, ai = 0;            /* with its generation and index */

/* The clients. */
mtype = { moves, waits, ended };
mtype state[CLIENTS];
byte mine[CLIENTS];             /* the generation in which it waits */
bool subscribed[CLIENTS], due[CLIENTS];
chan inbox[CLIENTS] = [4] of { bool, byte };
byte dead = 0;                  /* bits */
byte copy_h[CLIENTS], copy_seen[CLIENTS];       /* an arrive that runs late; 0: there is none */
byte lcopy_h[CLIENTS], lcopy_seen[CLIENTS];     /* a leave */
byte doubts = 0, losses = 0, leaves = 0, erased = 0, parts = 0, slow = 0, resets = 0;
bool quiet = false;             /* nothing has changed since all began to send again */

/* What the checks know. An await is a bit. */
int who[MOST];                  /* awaits that have arrived in that generation */
byte indices[MOST];             /* bits: those who passed it got */
byte data_of[MOST], datas = 1;
int out = 0, out_lost = 0;      /* awaits that were answered so */
int unanswered = 0;             /* awaits whose leaves were not */
byte in_data[CLIENTS];          /* of the first arrival of the present await */
byte now_h[CLIENTS];

byte i, n;                      /* 0 between two steps */

#define AWAIT(p, h) ((p) * ROUNDS + (h) - 1)
#define CARD(bits) (HAS(bits, 0) + HAS(bits, 1) + HAS(bits, 2))
#define OF(p) ((BIT(ROUNDS) - 1) << ((p) * ROUNDS))                      /* the awaits of a client */
#define CLIENTS_IN(awaits) ((((awaits) & OF(0)) != 0) + (((awaits) & OF(1)) != 0) + (((awaits) & OF(2)) != 0))
#define CLEAN (leaves == 0 && dead == 0 && erased == 0 && parts == 0 && slow == 0 && resets == 0)

#ifdef NO_SINCE
#define FROM_SINCE(g) true
#else
#define FROM_SINCE(g) ((g) >= since)
#endif
#ifdef NO_ABOVE
#define TO_GEN(g) true
#else
#define TO_GEN(g) ((g) <= gen)
#endif
#ifdef NO_SEEN
#define KNOWN(g) true
#elif defined(SEEN_ANSWERED)
#define KNOWN(g) ((g) == 0)
#else
#define KNOWN(g) ((g) > 0 && FROM_SINCE(g) && TO_GEN(g))
#endif

#ifdef NO_LATE
#define IS_LATE(p, h) (hold[p] == h && left[p])
#else
#define IS_LATE(p, h) (hold[p] > h || hold[p] == h && left[p])
#endif
#ifdef NO_HOLD
#define HAS_RECORD(p, h) false
#else
#define HAS_RECORD(p, h) (hold[p] == h && !left[p])
#endif

#ifdef NO_LEASE
#define LEASE_OVER(others) false
#else
#define LEASE_OVER(others) ((arrived & over & (others)) != 0)
#endif
#ifdef OWN_STANDS
#define OWN(p) false
#else
#define OWN(p) HAS(arrived, p)
#endif
#ifdef NO_COUNT
#define MISCOUNTED false
#else
#define MISCOUNTED (count != CARD(arrived))
#endif

/* Messages that come while no await is under way change nothing. */
inline publish(is_passed) {
  i = 0;
  do
  :: i < CLIENTS ->
     if
     :: subscribed[i] && losses < LOSSES -> losses++
     :: subscribed[i] -> assert(nfull(inbox[i])); inbox[i]!is_passed,gen
     :: !subscribed[i]
     fi;
     i++
  :: else -> break
  od;
  i = 0
}

inline next_generation() {
  gen++; arrived = 0; over = 0; count = 0; quiet = false;
  assert(gen < MOST)
}

inline break_generation(quietly) {
#ifndef NO_BROKEN_NOTE
  broken = broken | BIT(gen);
#endif
#ifdef FORGET
  if :: gen > since + FORGET -> since = gen - FORGET :: else fi;
#endif
  if :: quietly :: !quietly -> publish(false) fi;
  next_generation()
}

inline begin_data() {
  if
  :: data
  :: !data ->
     data = true; gen = fresh; since = gen; arrived = 0; over = 0; count = 0; quiet = false
  fi
}

inline lose_hash() {
#ifdef REUSE_NUMBERS
  fresh = 1;
#elif defined(BACK)
  fresh = 1;
#else
  fresh = gen + 1;
#endif
  data = false; gen = 0; since = 0; count = 0; broken = 0; datas++; quiet = false;
  i = 0;
  do
  :: i < CLIENTS -> hold[i] = 0; rgen[i] = 0; rindex[i] = 0; left[i] = false; i++
  :: else -> break
  od;
  i = 0
}

/* Of a generation that is over. */
inline outcome(p) {
  ag = rgen[p]; ai = rindex[p];
  if
  :: !FROM_SINCE(ag) || !TO_GEN(ag) -> ans = lost
  :: FROM_SINCE(ag) && TO_GEN(ag) && HAS(broken, ag) -> ans = is_broken
  :: FROM_SINCE(ag) && TO_GEN(ag) && !HAS(broken, ag) -> ans = passed
  fi
}

inline note_arrival(p, h) {
  who[gen] = who[gen] | BIT(AWAIT(p, h));
  data_of[gen] = datas;
  if :: now_h[p] == h && in_data[p] == 0 -> in_data[p] = datas :: else fi
}

inline join(p, h) {
  if
  :: OWN(p) || LEASE_OVER(255) || MISCOUNTED ->
#ifdef REACH_OWN
     assert(!OWN(p));
#endif
#ifdef REACH_OVER
     assert(!LEASE_OVER(255));
#endif
     break_generation(false)
  :: else
  fi;
  quiet = false;
  n = CARD(arrived);
  note_arrival(p, h);
#ifdef REACH_ROUND
  i = 0; do :: i < CLIENTS -> assert(state[i] != waits || mine[i] == gen); i++ :: else -> break od; i = 0;
#endif
  hold[p] = h; left[p] = false; rgen[p] = gen; rindex[p] = PARTIES - 1 - n; ag = gen; ai = rindex[p];
  if
  :: n == PARTIES - 1 -> publish(true); next_generation(); ans = passed
  :: else -> arrived = arrived | BIT(p); over = over & ~BIT(p); count++; ans = waiting
  fi;
  n = 0
}

inline arrive(p, h, seen) {
  begin_data();
  if
  :: IS_LATE(p, h) -> ans = late
  :: !IS_LATE(p, h) && HAS_RECORD(p, h) ->
     if
     :: rgen[p] != gen -> outcome(p)
     :: rgen[p] == gen && HAS(arrived, p) && !LEASE_OVER(~BIT(p)) ->
        over = over & ~BIT(p); ans = waiting; ag = gen; ai = rindex[p]
     :: rgen[p] == gen && !(HAS(arrived, p) && !LEASE_OVER(~BIT(p))) -> break_generation(false); outcome(p)
     fi
  :: !IS_LATE(p, h) && !HAS_RECORD(p, h) ->
     if
     :: KNOWN(seen) -> join(p, h)
     :: !KNOWN(seen) -> ans = other; ag = gen
     fi
  fi
}

#ifdef LEAVE_QUIET
#define QUIETLY true
#else
#define QUIETLY false
#endif
#ifdef LATE_LEAVE
#define LEAVES_NOTHING(p, h) (hold[p] == h && left[p])
#else
#define LEAVES_NOTHING(p, h) (hold[p] > h || hold[p] == h && left[p])
#endif
#ifdef LEAVE_UNSEEN
#define ELSEWHERE(p, h, seen) (!data)
#elif defined(SEEN_ANSWERED)
#define ELSEWHERE(p, h, seen) (hold[p] < h && (!data || (seen) > 0 && !(FROM_SINCE(seen) && TO_GEN(seen))))
#else
#define ELSEWHERE(p, h, seen) (hold[p] < h && (!data || !(FROM_SINCE(seen) && TO_GEN(seen))))
#endif

inline leave(p, h, seen) {
  if
  :: ELSEWHERE(p, h, seen) ->
#ifdef LEAVE_UNSEEN
     ans = is_left
#else
     if :: seen == 0 -> ans = is_left :: else -> ans = lost fi
#endif
  :: !ELSEWHERE(p, h, seen) && LEAVES_NOTHING(p, h) -> ans = is_left
  :: !ELSEWHERE(p, h, seen) && !LEAVES_NOTHING(p, h) ->
     if
     :: hold[p] == h && rgen[p] != gen -> outcome(p)
     :: hold[p] != h || rgen[p] == gen ->
        if
        :: hold[p] == h || HAS(arrived, p) -> break_generation(QUIETLY)
        :: else
        fi;
        ans = is_left;
#ifdef NO_TOMBSTONE
        if :: hold[p] == h -> left[p] = true :: else fi
#else
        hold[p] = h; left[p] = true; rgen[p] = 0; rindex[p] = 0
#endif
     fi
  fi
}

inline forget_answer() { ans = none; ag = 0; ai = 0 }

inline passes(p, h, g, index) {
  assert(HAS(who[g], AWAIT(p, h)));
  assert(CLIENTS_IN(who[g]) >= PARTIES);
  do
  :: i < MOST -> assert(i == g || indices[i] == 0 || (who[i] & who[g]) == 0); i++
  :: else -> i = 0; break
  od;
  assert((who[g] & out) == 0);
  assert(data_of[g] != datas || (who[g] & out_lost) == 0);
  assert(index < PARTIES && !HAS(indices[g], index));
  assert(in_data[p] == data_of[g]);
  indices[g] = indices[g] | BIT(index)
}

inline goes_out(p, h) {
  assert(!CLEAN);
  i = 0;
  do
  :: i < MOST -> assert(!HAS(who[i], AWAIT(p, h)) || indices[i] == 0); i++
  :: else -> break
  od;
  i = 0;
  out = out | BIT(AWAIT(p, h))
}

inline goes_out_lost(p, h) {
  assert(erased > 0 || parts > 0);
#ifdef REACH_LOST
  assert(false);
#endif
  out_lost = out_lost | BIT(AWAIT(p, h))
}

inline ends(p) {
  mine[p] = 0; in_data[p] = 0; due[p] = false; state[p] = moves;
  if
  :: subscribed[p] ->                           /* others of the process keep the subscription */
  :: subscribed[p] ->
     subscribed[p] = false;
     do :: nempty(inbox[p]) -> inbox[p]?_,_ :: empty(inbox[p]) -> break od
  :: !subscribed[p]
  fi
}

proctype Client(byte p) {
  byte h = 0, index = 0, known = 0, g = 0;
  bool doubt = false, is_passed = false;
  {
  skip;
begins:
  atomic {
    if
    :: h == ROUNDS -> goto done
    :: h < ROUNDS -> h++; now_h[p] = h; in_data[p] = 0
    fi;
#ifdef SEEN_ANSWERED
    known = 0
#endif
  }
asks:
  atomic {
    due[p] = false; state[p] = moves;
    if
    :: arrive(p, h, known)
    :: doubts < DOUBTS ->                                       /* its answer is lost */
       doubts++; arrive(p, h, known); forget_answer(); if :: known > 0 -> doubt = true :: else fi
    :: doubts < DOUBTS && copy_h[p] == 0 ->                     /* it runs late */
       doubts++; copy_h[p] = h; copy_seen[p] = known; if :: known > 0 -> doubt = true :: else fi
    fi;
    if
    :: ans == none -> goto asks
    :: ans == none && leaves < LEAVES -> leaves++; goto leaving
    :: ans == passed -> index = ai; g = ag; forget_answer(); goto has_passed
    :: ans == is_broken -> forget_answer(); goto is_out
    :: ans == lost -> forget_answer(); goto is_lost
    :: ans == other ->
#ifdef REACH_OTHER
       assert(known == 0);
#endif
       if
#ifdef NO_DOUBT
       :: mine[p] > 0 -> forget_answer(); goto is_lost
#else
       :: mine[p] > 0 || doubt -> forget_answer(); goto is_lost
#endif
       :: else -> known = ag; forget_answer(); goto asks
       fi
    :: ans == waiting -> mine[p] = ag; index = ai; known = ag; forget_answer(); state[p] = waits
    :: ans == late -> assert(false)
    fi
  }
  do
  :: atomic { inbox[p]?is_passed,g -> state[p] = moves;
       if
       :: is_passed && g == mine[p] -> is_passed = false; goto has_passed
       :: else -> is_passed = false; g = 0; goto asks
       fi }
  :: atomic { !subscribed[p] -> subscribed[p] = true;
#ifndef NO_ASK_AFTER
       state[p] = moves; goto asks
#endif
     }
#ifndef NO_POLL
  :: atomic { state[p] = moves; goto asks }
#endif
  :: atomic { leaves < LEAVES -> leaves++; state[p] = moves; goto leaving }
  od;
leaving:
  atomic {
    if
    :: leave(p, h, known)
    :: doubts < DOUBTS -> doubts++; leave(p, h, known); forget_answer()
    :: doubts < DOUBTS && lcopy_h[p] == 0 -> doubts++; lcopy_h[p] = h; lcopy_seen[p] = known
    fi;
    if
    :: ans == none -> goto leaving
    :: ans == none -> unanswered = unanswered | BIT(AWAIT(p, h)); goto is_over
#ifdef LEAVE_BLIND
    :: ans != none -> forget_answer(); goto is_out
#else
    :: ans == passed ->
#ifdef REACH_LEFT_PASSED
       assert(false);
#endif
       index = ai; g = ag; forget_answer(); goto has_passed
    :: ans == is_broken || ans == is_left -> forget_answer(); goto is_out
    :: ans == lost -> forget_answer(); goto is_lost
#endif
    fi
  };
has_passed:
  atomic { passes(p, h, g, index); goto is_over };
is_out:
  atomic { goes_out(p, h); goto is_over };
is_lost:
  atomic { goes_out_lost(p, h) };
is_over:
  atomic { ends(p); index = 0; g = 0; doubt = false; goto begins };
done:
  atomic { state[p] = ended; known = 0; h = 0 }
  } unless { atomic { HAS(dead, p) -> ends(p); state[p] = ended } }
}

proctype World() {
  byte h;
end:
  do
  :: atomic { copy_h[0] > 0 -> h = copy_h[0]; copy_h[0] = 0; arrive(0, h, copy_seen[0]);
#ifdef REACH_LATE
       assert(ans != late || left[0]);
#endif
#ifdef REACH_TOMBSTONE
       assert(ans != late || !left[0]);
#endif
       forget_answer(); copy_seen[0] = 0; h = 0 }
  :: atomic { copy_h[1] > 0 -> h = copy_h[1]; copy_h[1] = 0; arrive(1, h, copy_seen[1]); forget_answer();
       copy_seen[1] = 0; h = 0 }
  :: atomic { lcopy_h[0] > 0 -> h = lcopy_h[0]; lcopy_h[0] = 0; leave(0, h, lcopy_seen[0]); forget_answer();
       lcopy_seen[0] = 0; h = 0 }
  :: atomic { lcopy_h[1] > 0 -> h = lcopy_h[1]; lcopy_h[1] = 0; leave(1, h, lcopy_seen[1]); forget_answer();
       lcopy_seen[1] = 0; h = 0 }
  :: atomic { erased < DATA && data -> erased++; lose_hash(); arrived = 0; over = 0 }
  :: atomic { parts < PARTS && data -> parts++; lose_hash() }
  :: atomic { parts < PARTS && arrived != 0 -> parts++; arrived = 0; over = 0; quiet = false }
  :: atomic { resets < RESETS && arrived != 0 -> resets++; break_generation(false) }
  :: atomic { slow < SLOW && HAS(arrived, 0) && !HAS(over, 0) -> slow++; over = over | 1; quiet = false }
#ifdef KILL
  :: atomic { dead == 0 && state[0] != ended -> dead = 1; quiet = false }
  :: atomic { (dead & arrived & ~over) != 0 -> over = over | (dead & arrived); quiet = false }
#endif
  od
}

#define STILL(p) (state[p] == ended || state[p] == waits && subscribed[p] && !due[p] && empty(inbox[p]))
#if CLIENTS > 2
#define ALL_STILL (STILL(0) && STILL(1) && STILL(2))
#else
#define ALL_STILL (STILL(0) && STILL(1))
#endif

proctype Clock() {
end:
  do
  :: atomic { ALL_STILL && !quiet ->
       quiet = true;
       over = over | (dead & arrived);
#ifndef NO_POLL
       do :: i < CLIENTS -> due[i] = (state[i] == waits); i++ :: else -> break od;
       i = 0
#endif
     }
  :: atomic { ALL_STILL && quiet ->
       do
       :: i < CLIENTS ->
          if
          :: state[i] == waits ->
             assert(data && mine[i] == gen && HAS(arrived, i));         /* else it is left behind */
             assert((arrived & dead) == 0);                             /* else it waits for the dead */
             assert(!CLEAN || CLIENTS > PARTIES)
          :: else
          fi;
          i++
       :: else -> break
       od;
       i = 0;
       do
       :: i < MOST ->
          assert(indices[i] == 0 || indices[i] == BIT(PARTIES) - 1 || (who[i] & (unanswered | out_lost)) != 0 ||
                 HAS(dead, 0) && (who[i] & OF(0)) != 0);
          i++
       :: else -> break
       od;
       i = 0 }
  od
}

init {
  atomic {
    do :: i < CLIENTS -> state[i] = moves; i++ :: else -> i = 0; break od;
    run Client(0); run Client(1);
#if CLIENTS > 2
    run Client(2);
#endif
    run World(); run Clock()
  }
}
