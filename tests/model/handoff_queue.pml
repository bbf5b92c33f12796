/* handoff_queue.pml - the queue is served in order, and who is in it is woken (docs/protocol.md, sections 3, 5, 6).
 *
 * Three clients with WAITS waits each at most, each with a hold id of its own. Asking takes two steps, the script and
 * the reading of its answer; messages of the inbox may come before, between and after. A wait asks again only if
 * something is heard, its inbox is confirmed anew, or the lock's ttl has run out: nobody polls a lock that is held, or
 * that an end or a pass has left free. So who is not woken waits for ever: a deadlock, which the search reports.
 * BREAKS: the subscriber connection of client 0 breaks, what is on it is lost, and the server may count the dead socket
 * for a while. LEAVES: a wait ends early; in the process another one may wait, which inherits the hold id and its
 * ticket. REFUSALS: a full server refuses to set the field of a grant. KILL: client 2 may die, and the server may notice
 * that late; only the ttl of what it holds runs out, and only if the server counted it when it got the lock. STOP:
 * client 2 may stand still for good (SIGSTOP), and the server counts it all the same; the ttl of what it holds runs out.
 * FENCED=c: client c needs a token with the lock, and a script that another client runs cannot take one: the lock is c's
 * then without a token, c is told `open`, and its question finds the lock its own. DROPS: a question about a held lock
 * may drop from the queue who does not listen.
 *
 * Checked   one holder; whoever gets the lock, by an end, a pass or its own question, came before all who are in the
 *           queue (who was passed over, because the server counted no subscriber, has left it); nobody waits for ever; a
 *           lock that is nobody's is free in the end.
 * Flags, each takes one guard away:
 *   JUMP             who asks and finds the lock free takes it, though others are in the queue
 *   NEW_TICKET       who asks again takes a new ticket
 *   SUCCESSOR_NEW_H  who inherits asks under a hold id of its own, and the old one is not ended
 *   REFUSED_DROP     whose grant was refused is in the queue no more
 *   NO_OPEN          whose grant was refused is not told
 *   NO_SKIP          the first in the queue is granted the lock, though nobody listens
 *   NO_NEXT          the first in the queue is dropped, and the next one is not looked at
 *   NO_PASS_ON       the first in the queue leaves a lock that is free, and it is not passed on
 *   LEAVE_BLIND      who gives up leaves the queue only; what it was granted meanwhile stays its own
 *   FORGET_GRANT     a grant is not noted while a question is on its way
 *   FORGET_OPEN      `open` is not remembered meanwhile
 *   NO_ASK_AFTER     after a new subscription its wait does not ask
 *   ASK_UNCONFIRMED  it asks before that is confirmed
 *   NO_POLL          nobody asks when the ttl has run out
 *   UNRESERVED       with FENCED: who cannot take its token leaves the lock free, and tells it `open`
 *   DROP_ANY         with DROPS: the first in the queue is dropped, whether it listens or not
 *   KILL REFUSALS=1  takes none away and fails: whose grant was refused dies before it asks. The lock is free, no ttl
 *                    runs, and only a poll, which is not here, tells the next one (docs/protocol.md, section 8)
 *   REACH_...        asserts that something cannot happen; must fail, else the model proves nothing
 * Not here: late copies and hand-backs (handoff_wake.pml, retry.pml), time (handoff_time.pml), windows and foreign
 * clients (handoff_share.pml). */
/* Shows: P13, P14, S19 (the order), S20 (UNRESERVED) */
#ifndef WAITS
#define WAITS 2
#endif
#ifndef BREAKS
#define BREAKS 0
#endif
#ifndef LEAVES
#define LEAVES 0
#endif
#ifndef REFUSALS
#define REFUSALS 0
#endif
#define NC 3
#define CL(h) (((h) - 1) % NC)
#define BIT(c) (1 << (c))
#define IS_OPEN 64              /* message: `open`, not a grant; + hold id */

byte holder = 0;                /* 0: free; else a hold id */
bool expired = false;           /* the lock's ttl ran out, and nobody has had it since */
bool hopeless = false;          /* it was granted to one whom the server knew to be dead */
byte q[NC + 1], waiting = 0;
bool listens[NC];               /* the server counts a subscriber of its inbox */
bool half[NC];                  /* ... on a dead socket: messages go nowhere */
bool alive[NC];
chan inbox[NC] = [4] of { byte };
bool confirmed[NC];             /* its inbox is subscribed, as far as it knows */
bool anew[NC];                  /* a confirmation that its wait has not looked at yet */
bool sure[NC];
byte breaks = 0, leaves = 0, refusals = 0, finished = 0;

/* What the checks go by, and nobody else. */
byte in_queue = 0;               /* bits: who is in the queue, whatever the queue says */
byte before[NC];                /* bits: who of those came before */

hidden byte i, n, g, m;

inline leave_queue(c) {
  in_queue = in_queue & ~BIT(c);
  before[0] = before[0] & ~BIT(c); before[1] = before[1] & ~BIT(c); before[2] = before[2] & ~BIT(c);
  before[c] = 0
}

inline remove(h) {
  i = 0; n = 0;
  do
  :: i < waiting -> if :: q[i] != h -> q[n] = q[i]; n++ :: else fi; i++
  :: else -> break
  od;
  waiting = n;
  do :: n <= NC -> q[n] = 0; n++ :: else -> break od
}

/* Those before the first in the queue that listens are dropped. h asks for itself; 0: nobody does. */
inline drop_dead(h) {
#ifndef NO_SKIP
  do
  :: waiting > 0 && q[0] != h && !listens[CL(q[0])] ->
     g = q[0];
#ifdef REACH_DROP
     assert(waiting == 1);
#endif
     remove(g); leave_queue(CL(g))
  :: else -> break
  od
#else
  skip
#endif
}

inline tell(h, what) {
  if
  :: listens[CL(h)] && !half[CL(h)] && alive[CL(h)] -> assert(nfull(inbox[CL(h)])); inbox[CL(h)]!what
  :: else
  fi
}

inline win(h) {
  assert(holder == 0);
  if
  :: in_queue & BIT(CL(h)) -> assert(before[CL(h)] == 0)
  :: else -> assert(in_queue == 0)
  fi;
  holder = h; expired = false;
  hopeless = !listens[CL(h)] && !alive[CL(h)];
  remove(h); leave_queue(CL(h))
}

/* The lock is free, and the first in the queue is alive. A script of client `by` is at work. */
inline grant(by) {
  g = q[0];
  if
  :: refusals < REFUSALS ->
     refusals++;
#ifdef REFUSED_DROP
     remove(g);
#endif
#ifndef NO_OPEN
     tell(g, IS_OPEN + g)
#endif
#ifdef FENCED
  :: CL(g) == FENCED && by != FENCED ->
#ifndef UNRESERVED
     win(g);
#endif
     tell(g, IS_OPEN + g)
  :: CL(g) != FENCED || by == FENCED -> win(g); tell(g, g)
#else
  :: true -> win(g); tell(g, g)
#endif
  fi
}

#ifdef DROP_ANY
#define MAY_DROP(n) (n == 0 || !listens[CL(q[n])])
#else
#define MAY_DROP(n) (!listens[CL(q[n])])
#endif

/* Who does not listen is dropped, whoever is before it; but not h, which asks. */
inline drop_all_dead(h) {
  m = 0;
  do
  :: m < waiting && q[m] != h && MAY_DROP(m) -> g = q[m]; remove(g); leave_queue(CL(g))
  :: m < waiting && !(q[m] != h && MAY_DROP(m)) -> m++
  :: m >= waiting -> break
  od;
  m = 0
}

inline pass(by) {
  holder = 0;
#ifdef NO_NEXT
  m = 1;
  if :: waiting > 0 -> m = listens[CL(q[0])] :: else fi;
  drop_dead(0);
  if :: waiting > 0 && m -> grant(by) :: else fi
#else
  drop_dead(0);
  if :: waiting > 0 -> grant(by) :: else fi
#endif
}

#define IN_QUEUE(h) (waiting > 0 && q[0] == h || waiting > 1 && q[1] == h || waiting > 2 && q[2] == h || \
    waiting > 3 && q[3] == h)

inline take_ticket(h) {
#ifdef NEW_TICKET
  remove(h);
#endif
  if :: !IN_QUEUE(h) -> assert(waiting <= NC); q[waiting] = h; waiting++ :: else fi;
  if
  :: in_queue & BIT(CL(h))
  :: else -> before[CL(h)] = in_queue; in_queue = in_queue | BIT(CL(h))
  fi
}

/* Script acquire(h): its answer is left in `mine`. */
inline acquire(h) {
  mine = false;
  if
  :: holder == h -> mine = true
  :: holder != h && holder != 0 ->
     take_ticket(h)
#ifdef DROPS
     ; if :: drop_all_dead(h) :: skip fi
#endif
  :: else ->
     drop_dead(h);
     if
#ifdef JUMP
     :: true -> win(h); mine = true
#else
     :: waiting == 0 || q[0] == h -> win(h); mine = true
     :: else -> grant(CL(h)); take_ticket(h)
#endif
     fi
  fi
}

/* Script end(h), of a hold or a ticket. */
inline end_hold(h) {
  m = (waiting > 0 && q[0] == h);
  remove(h);
  if :: in_queue & BIT(CL(h)) -> leave_queue(CL(h)) :: else fi;
#ifdef LEAVE_BLIND
  m = 2 * (holder == h && !sure[CL(h)]) + m;
#endif
  if
  :: m < 2 && holder == h -> pass(CL(h))
  :: m < 2 && holder == 0 && m == 1 ->
#ifdef REACH_PASS_ON
     assert(waiting == 0);
#endif
#ifndef NO_PASS_ON
     pass(CL(h))
#endif
  :: else
  fi
}

proctype Client(byte c) {
  byte w = 0, h = 0;
  bool mine, asks, answered, heard, noted;      /* asks: a question is due, or on its way; answered: the script ran */
  {
  do
  :: break
  :: atomic { w < WAITS && confirmed[c] -> w++; h = 1 + c + NC * (w - 1); anew[c] = false;
       do :: inbox[c]?_ :: empty(inbox[c]) -> break od;         /* about an earlier hold: nothing to be done */
       asks = true }
     do
     :: atomic { asks && !answered -> acquire(h); answered = true }
     :: atomic { asks && answered ->
          answered = false; asks = heard; heard = false;
#ifdef REACH_NOTED
          assert(!noted);
#endif
          if :: mine || noted -> mine = false; noted = false; asks = false; break :: else fi }
     :: atomic { inbox[c]?[m] ->
          inbox[c]?m;
          if
          :: m == h && !asks -> break
          :: m == h && asks ->
#ifndef FORGET_GRANT
             noted = true
#endif
          :: m == IS_OPEN + h && !asks -> asks = true
          :: m == IS_OPEN + h && asks ->
#ifndef FORGET_OPEN
             heard = true
#endif
          :: else
          fi }
     :: atomic { anew[c] -> anew[c] = false; if :: asks -> heard = true :: else -> asks = true fi }
#ifndef NO_POLL
     :: atomic { expired && !asks -> asks = true }
#endif
     :: atomic { leaves < LEAVES && !asks -> leaves++;
#ifdef SUCCESSOR_NEW_H
          h = h + NC * WAITS;
#endif
          asks = true }                                         /* the next one of the process inherits h */
     :: atomic { leaves < LEAVES && (!asks || answered) -> leaves++;
          mine = false; noted = false; heard = false; asks = false; answered = false;
          end_hold(h); h = 0 } goto left
     od;
     atomic { assert(holder == h && !sure[0] && !sure[1] && !sure[2]); sure[c] = true;
       heard = false; anew[c] = false }
     atomic { end_hold(h); sure[c] = false; h = 0 }
left:
     skip
  od;
  finished++
  } unless { atomic { !alive[c] -> h = 0; finished++ } }
}

proctype World() {
end:
  do
  :: false
#if BREAKS > 0
  :: atomic { breaks < BREAKS && confirmed[0] -> breaks++; confirmed[0] = false; half[0] = true;
       do :: inbox[0]?_ :: empty(inbox[0]) -> break od }
  :: atomic { half[0] -> half[0] = false; listens[0] = false }
#ifdef ASK_UNCONFIRMED
  :: atomic { !confirmed[0] && !anew[0] -> anew[0] = true }
     atomic { listens[0] = true; half[0] = false; confirmed[0] = true }
#else
  :: atomic { !confirmed[0] -> listens[0] = true; half[0] = false; confirmed[0] = true;
#ifndef NO_ASK_AFTER
       anew[0] = true
#endif
     }
#endif
#endif
#if defined(KILL) || defined(STOP)
  :: atomic { alive[2] && finished < NC -> alive[2] = false; sure[2] = false;
       do :: inbox[2]?_ :: empty(inbox[2]) -> break od }
#ifdef KILL
  :: atomic { !alive[2] && listens[2] -> listens[2] = false }
#endif
  :: atomic { holder != 0 && !alive[CL(holder)] && !hopeless ->
#ifdef REACH_EXPIRED
       assert(waiting == 0);
#endif
       holder = 0; expired = true }
#endif
  od
}

init {
  atomic {
    listens[0] = true; listens[1] = true; listens[2] = true;
    alive[0] = true; alive[1] = true; alive[2] = true;
    confirmed[0] = true; confirmed[1] = true; confirmed[2] = true;
    run Client(0); run Client(1); run Client(2); run World()
  }
  atomic { finished == NC && (holder == 0 || alive[CL(holder)]) -> assert(holder == 0) }
}
