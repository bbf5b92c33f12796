/* fair_handoff.pml - one queue with Redisson: who releases a fair lock grants it to the first of ours, and calls the
 * first of Redisson's (docs/protocol.md, section 11).
 *
 * CLIENTS clients of ours and JAVAS of Redisson's, with WAITS waits each at most, each with a hold id of its own. A
 * wait of ours takes its ticket by its first question, whether its inbox is subscribed or not; the confirmation of the
 * inbox makes it ask again. An answer says whether a client of Redisson's is the one who will call it: the holder, when it is
 * the first in the queue, else the one before it. Only then it subscribes a channel of its own, and asks again when
 * that is confirmed. Redisson's waits take a ticket, subscribe their own channel, ask again; its release calls the
 * first in the queue there, whoever that is. Asking takes two steps, the script and the reading of its answer. Nobody polls:
 * who is not woken waits for ever, a deadlock, which the search reports.
 * BREAKS: the subscriber connection of our client 0 breaks, what is on it is lost, and the server may count the dead
 * sockets for a while. LEAVES: a wait of ours ends early. JAVA_LEAVES: one of Redisson's does, of a lock that is held
 * (its script tells nobody: of a free lock that is its loss of a call, and a poll's business). KILL: our client 1 may
 * die, and the server may notice that late; then whoever finds the lock free polls, as nobody else is sure to call it.
 *
 * Checked   one holder; whoever gets the lock asked before all others who wait, except ours whose inbox the server does
 *           not count just then: they keep their tickets, unless only Redisson's are behind them; nobody waits for ever.
 * Flags, each takes one guard away:
 *   NO_OWN           no wait of ours subscribes a channel of its own
 *   ONLY_HEAD        the one before it does not count, only the holder does
 *   OWN_UNCONFIRMED  it asks when it joins that channel, and not when that is confirmed
 *   NO_TELL_NEXT     who leaves between a client of Redisson's and one of ours does not tell that one to ask
 *   TICKET_LATE      a ticket is taken only when the inbox is confirmed
 *   DROP_AWAY        whose inbox is not counted loses its ticket at once
 *   SKIP_JAVA        a release grants the lock to the first of ours, though Redisson's is before
 *   NO_CALL          a release does not call Redisson's
 *   NO_ASK_AFTER     after the inbox was confirmed its wait does not ask
 *   FORGET_GRANT     a grant is not noted while a question is on its way
 *   LEAVE_BLIND      who leaves leaves the queue only; what it was granted meanwhile stays its own
 *   NO_PASS_ON       the first in the queue leaves a lock that is free, and nobody is told
 *   NO_POLL          with KILL: nobody polls
 *   REACH_...        asserts that something cannot happen; must fail, else the model proves nothing
 * Not here: several waits of one client, which pass by none of their own; time, and what a grant's ttl means
 * (handoff_time.pml); hand-backs (handoff_wake.pml); scores, and the chance that a free lock gives to a client of
 * Redisson's that does not come. */
/* Shows: P21, S17 (the order) */
#ifndef CLIENTS
#define CLIENTS 2
#endif
#ifndef JAVAS
#define JAVAS 1
#endif
#ifndef WAITS
#define WAITS 2
#endif
#ifndef BREAKS
#define BREAKS 0
#endif
#ifndef LEAVES
#define LEAVES 0
#endif
#ifndef JAVA_LEAVES
#define JAVA_LEAVES 0
#endif
#define NP (CLIENTS + JAVAS)    /* ours are the first */
#define WHO(h) (((h) - 1) % NP)
#define OURS(h) (WHO(h) < CLIENTS)
#define BIT(p) (1 << (p))
#define IS_OPEN 64              /* message: ask; + hold id */

byte holder = 0;                /* 0: free; else a hold id */
byte q[NP + 1], waiting = 0;
chan inbox[CLIENTS] = [6] of { byte };
bool listens[CLIENTS];          /* the server counts a subscriber of its inbox */
bool confirmed[CLIENTS];        /* as far as it knows */
bool joined[CLIENTS];           /* it wants to be */
bool half;                      /* client 0's subscriptions are on a dead socket: messages go nowhere */
bool anew[CLIENTS];             /* a confirmation that its wait has not looked at yet */
bool alive[CLIENTS];
bool own[NP];                   /* the server counts a subscriber of the channel of its wait */
byte listening[CLIENTS];        /* as far as it knows. 1: it was asked for; 2: it is confirmed */
bool called[NP];                /* a message on that channel is on its way */
bool sure[NP];
byte breaks = 0, leaves = 0, java_leaves = 0, finished = 0;

/* What the checks go by, and nobody else. */
byte in_queue = 0;               /* bits: who waits, whatever the queue says */
byte before[NP];                /* bits: who of those asked before */

hidden byte i, n, g, m, k, at, helper;

inline leave_queue(p) {
  in_queue = in_queue & ~BIT(p);
  i = 0;
  do :: i < NP -> before[i] = before[i] & ~BIT(p); i++ :: else -> break od;
  before[p] = 0
}

inline join_queue(p) {
  if
  :: in_queue & BIT(p)
  :: else -> before[p] = in_queue; in_queue = in_queue | BIT(p)
  fi
}

inline remove(h) {
  i = 0; n = 0;
  do
  :: i < waiting -> if :: q[i] != h -> q[n] = q[i]; n++ :: else fi; i++
  :: else -> break
  od;
  waiting = n;
  do :: n <= NP -> q[n] = 0; n++ :: else -> break od
}

/* at: its position in the queue, from 0; waiting: it is not in it. */
inline find(h) {
  at = 0;
  do :: at < waiting && q[at] != h -> at++ :: else -> break od
}

inline tell(h, what) {
  if
  :: listens[WHO(h)] && !(half && WHO(h) == 0) && alive[WHO(h)] ->
     assert(nfull(inbox[WHO(h)])); inbox[WHO(h)]!what
  :: else
  fi
}

inline call_first() {           /* on the first one's own channel */
  if
  :: waiting > 0 && own[WHO(q[0])] && !(half && WHO(q[0]) == 0) -> called[WHO(q[0])] = true
  :: else
  fi
}

inline win(h) {
  assert(holder == 0);
  i = 0;
  do
  :: i < NP -> if :: (before[WHO(h)] & BIT(i)) -> assert(i < CLIENTS && !listens[i]) :: else fi; i++
  :: else -> break
  od;
  if                            /* who was not in the queue asks just now: all who wait were before */
  :: in_queue & BIT(WHO(h))
  :: else ->
     i = 0;
     do
     :: i < NP -> if :: (in_queue & BIT(i)) -> assert(i < CLIENTS && !listens[i]) :: else fi; i++
     :: else -> break
     od
  fi;
  holder = h;
  remove(h); leave_queue(WHO(h))
}

/* The lock is free. m: who gets it, or is waited for; h: asks for itself, 0: nobody does. Those of ours before it whom
 * the server does not count keep their tickets. Redisson's behind such a one cannot have the lock: it waits until that
 * one is back, or its time is over; somebody of ours who listens has to come back for that, else its ticket is gone. */
inline look_for_first(h) {
  m = 0; k = 0; helper = h;
  do
  :: k < waiting && m == 0 ->
     if
     :: q[k] == h || (OURS(q[k]) && listens[WHO(q[k])]) -> m = q[k]
#ifdef SKIP_JAVA
     :: q[k] != h && !OURS(q[k]) -> k++
#else
     :: q[k] != h && !OURS(q[k]) -> m = q[k]
#endif
#ifdef DROP_AWAY
     :: q[k] != h && OURS(q[k]) && !listens[WHO(q[k])] -> g = q[k]; remove(g)
#else
     :: q[k] != h && OURS(q[k]) && !listens[WHO(q[k])] -> k++
#endif
     :: q[k] != h && OURS(q[k]) && !listens[WHO(q[k])] && !alive[WHO(q[k])] ->  /* its time is over */
        g = q[k]; remove(g); leave_queue(WHO(g))
     fi
  :: else -> break
  od;
  if
  :: m != 0 && !OURS(m) && k > 0 ->
     at = k;
     do
     :: at < waiting && helper == 0 -> if :: OURS(q[at]) && listens[WHO(q[at])] -> helper = q[at] :: else -> at++ fi
     :: else -> break
     od;
     if
     :: helper != 0 -> m = 0;
#ifdef REACH_HELPER
        assert(h != 0);
#endif
        if :: h == 0 -> tell(helper, IS_OPEN + helper) :: else fi
     :: else ->
#ifdef REACH_DROP
        assert(false);
#endif
        do :: k > 0 -> g = q[0]; remove(g); leave_queue(WHO(g)); k-- :: else -> break od
     fi
  :: else -> helper = 0
  fi;
#ifdef REACH_PASS_OVER
  assert(m == 0 || k == 0 || !OURS(m));
#endif
#ifdef SKIP_JAVA
  if :: m == 0 && waiting > 0 && !OURS(q[0]) -> m = q[0] :: else fi
#endif
}

/* A release, a break, a departure: nobody asks. */
inline pass() {
  holder = 0;
  look_for_first(0);
  if
  :: m != 0 && OURS(m) -> g = m; win(g); tell(g, g)
#ifndef NO_CALL
  :: m != 0 && !OURS(m) -> call_first()
#endif
  :: else
  fi
}

inline take_ticket(h) {
  find(h);
  if
  :: at == waiting -> assert(waiting <= NP); q[waiting] = h; waiting++
  :: else
  fi
}

/* Script fair_acquire(h): `mine` and `foreign` are left for the reader of its answer. */
inline acquire(h, joins) {
  mine = false; foreign = false;
  if
  :: holder == h -> mine = true
  :: holder != h && holder == 0 ->
     look_for_first(h);
     if
     :: (m == 0 && helper == 0) || m == h -> win(h); mine = true
     :: m == 0 && helper != 0           /* nobody yet */
     :: else ->
        if :: OURS(m) -> g = m; win(g); tell(g, g) :: else -> call_first() fi
     fi
  :: else
  fi;
  if
  :: !mine && joins ->
     take_ticket(h); find(h);
     if
     :: at == 0 -> foreign = (holder != 0 && !OURS(holder))
#ifdef ONLY_HEAD
     :: else -> foreign = (holder != 0 && !OURS(holder))
#else
     :: else -> foreign = !OURS(q[at - 1])
#endif
     fi
  :: else
  fi;
  if :: !mine -> join_queue(WHO(h)) :: else fi
}

/* Script fair_release(h), of a hold or a ticket. */
inline end_hold(h) {
  find(h);
  k = at; g = 0;
  if                            /* whom it leaves to be called by Redisson's */
  :: k + 1 < waiting && OURS(q[k + 1]) ->
     if
     :: k == 0 && holder != 0 && !OURS(holder) -> g = q[k + 1]
     :: k > 0 && !OURS(q[k - 1]) -> g = q[k + 1]
     :: else
     fi
  :: else
  fi;
#ifndef NO_TELL_NEXT
  if
  :: g != 0 ->
#ifdef REACH_TELL
     assert(false);
#endif
     tell(g, IS_OPEN + g)
  :: else
  fi;
#endif
  m = (k == 0 && waiting > 0);
  remove(h);
  if :: in_queue & BIT(WHO(h)) -> leave_queue(WHO(h)) :: else fi;
#ifdef LEAVE_BLIND
  m = 2 * (holder == h && !sure[WHO(h)]) + m;
#endif
  if
  :: m < 2 && holder == h -> pass()
#ifndef NO_PASS_ON
  :: m < 2 && holder == 0 && m == 1 -> pass()
#endif
  :: else
  fi
}

proctype Client(byte c) {
  byte w = 0, h = 0;
  bool mine, foreign, asks, answered, heard, noted;
  {
  do
  :: break
  :: atomic { w < WAITS -> w++; h = 1 + c + NP * (w - 1); anew[c] = false; called[c] = false;
       do :: inbox[c]?_ :: empty(inbox[c]) -> break od;         /* about an earlier hold: nothing to be done */
       asks = true }
     do
#ifdef TICKET_LATE
     :: atomic { asks && !answered -> acquire(h, confirmed[c]); answered = true }
#else
     :: atomic { asks && !answered -> acquire(h, true); answered = true }
#endif
     :: atomic { asks && answered ->
          answered = false; asks = heard; heard = false; joined[c] = true;
#ifdef REACH_NOTED
          assert(!noted);
#endif
          if :: mine || noted -> mine = false; noted = false; asks = false; break :: else fi;
#ifndef NO_OWN
          if
          :: foreign && listening[c] == 0 -> listening[c] = 1;
#ifdef OWN_UNCONFIRMED
             asks = true
#endif
          :: !foreign && listening[c] > 0 -> listening[c] = 0; own[c] = false; called[c] = false
          :: else
          fi
#endif
        }
     :: atomic { listening[c] == 1 && (c != 0 || (confirmed[0] && !half)) -> listening[c] = 2; own[c] = true;
#ifndef OWN_UNCONFIRMED
          if :: asks -> heard = true :: else -> asks = true fi
#endif
        }
     :: atomic { called[c] -> called[c] = false;
#ifdef REACH_CALLED
          assert(false);
#endif
          if :: asks -> heard = true :: else -> asks = true fi }
     :: atomic { inbox[c]?[m] ->
          inbox[c]?m;
          if
          :: m == h && !asks -> break
          :: m == h && asks ->
#ifndef FORGET_GRANT
             noted = true
#endif
          :: m == IS_OPEN + h -> if :: asks -> heard = true :: else -> asks = true fi
          :: else
          fi }
     :: atomic { anew[c] -> anew[c] = false; if :: asks -> heard = true :: else -> asks = true fi }
#ifdef KILL
#ifndef NO_POLL
     :: atomic { !alive[1] && holder == 0 && !asks -> asks = true }
#endif
#endif
     :: atomic { leaves < LEAVES && (!asks || answered) -> leaves++;
          mine = false; noted = false; heard = false; asks = false; answered = false;
          listening[c] = 0; own[c] = false; called[c] = false;
          end_hold(h); h = 0 } goto left
     od;
     atomic { assert(holder == h);
       i = 0;
       do :: i < NP -> assert(!sure[i]); i++ :: else -> break od;
       sure[c] = true; heard = false; anew[c] = false; listening[c] = 0; own[c] = false; called[c] = false }
     atomic { end_hold(h); sure[c] = false; h = 0 }
left:
     skip
  od;
  finished++
  } unless { atomic { !alive[c] -> finished++ } }
}

/* As Redisson does it: queues, subscribes, asks again, sleeps until it is called. */
proctype Java(byte j) {
  byte w = 0, h = 0;
  bool mine, foreign, asks, subscribes;
  do
  :: break
  :: atomic { w < WAITS -> w++; h = 1 + j + NP * (w - 1); asks = true; subscribes = true }
     do
     :: atomic { asks -> asks = false; mine = false;
          if
          :: holder == 0 && (waiting == 0 || q[0] == h) -> win(h); mine = true
          :: else -> take_ticket(h); join_queue(j)
          fi;
          if :: mine -> break :: else fi }
     :: atomic { subscribes && !asks -> subscribes = false; own[j] = true; asks = true }
     :: atomic { called[j] -> called[j] = false; asks = true }
#ifdef KILL
     :: atomic { !alive[1] && holder == 0 && !asks ->  /* the ttl that it read is over, and the dead one's score */
          if :: waiting > 0 && OURS(q[0]) && !alive[WHO(q[0])] -> g = q[0]; remove(g); leave_queue(WHO(g)) :: else fi;
          asks = true }
#endif
     :: atomic { java_leaves < JAVA_LEAVES && !asks && holder != 0 -> java_leaves++;
          remove(h); leave_queue(j); own[j] = false; called[j] = false } goto left
     od;
     atomic { assert(holder == h);
       i = 0;
       do :: i < NP -> assert(!sure[i]); i++ :: else -> break od;
       sure[j] = true; own[j] = false; called[j] = false }
     atomic { sure[j] = false; holder = 0; call_first() }
left:
     skip
  od;
  finished++
}

proctype World() {
end:
  do
  /* the inbox is subscribed for the first time, or anew */
  :: atomic { joined[0] && !confirmed[0] -> listens[0] = true; half = false; confirmed[0] = true;
#ifndef NO_ASK_AFTER
       anew[0] = true
#endif
     }
#if CLIENTS > 1
  :: atomic { joined[1] && !confirmed[1] && alive[1] -> listens[1] = true; confirmed[1] = true;
#ifndef NO_ASK_AFTER
       anew[1] = true
#endif
     }
#endif
#if CLIENTS > 2
  :: atomic { joined[2] && !confirmed[2] -> listens[2] = true; confirmed[2] = true;
#ifndef NO_ASK_AFTER
       anew[2] = true
#endif
     }
#endif
#if BREAKS > 0
  :: atomic { breaks < BREAKS && confirmed[0] -> breaks++; confirmed[0] = false; half = true; called[0] = false;
       if :: listening[0] == 2 -> listening[0] = 1 :: else fi;
       do :: inbox[0]?_ :: empty(inbox[0]) -> break od }
  :: atomic { half -> half = false; listens[0] = false; own[0] = false }
#endif
#ifdef KILL
  :: atomic { alive[1] && finished < NP && !sure[1] && holder != 0 && WHO(holder) != 1 ->
       alive[1] = false; called[1] = false;
       do :: inbox[1]?_ :: empty(inbox[1]) -> break od }
  :: atomic { !alive[1] && (listens[1] || own[1]) -> listens[1] = false; own[1] = false }
  :: atomic { holder != 0 && WHO(holder) == 1 && !alive[1] -> holder = 0 }      /* its lease is over */
#endif
  od
}

init {
  atomic {
    g = 0;
    do
    :: g < CLIENTS -> alive[g] = true; run Client(g); g++
    :: else -> break
    od;
    do
    :: g < NP -> run Java(g); g++
    :: else -> break
    od;
    run World()
  }
  atomic { finished == NP && (holder == 0 || !OURS(holder) || alive[WHO(holder)]) -> assert(holder == 0) }
}
