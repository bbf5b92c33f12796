/* handoff_share.pml - the open window: a foreign client gets the lock between ours (docs/protocol.md, section 9).
 *
 * CLIENTS of ours and one of Redisson's ("Java") acquire and release as often as they like, and stop when they like.
 * Java tries, subscribes to the lock's channel, tries again, and then when it hears `0`; it has no ticket in the queue
 * and takes a lock that is free. Ours ask, take a ticket, and then ask again only if told so: by `open`, by the channel
 * (joined behind Java; asked once more when that is confirmed), or because a window that they were told of is over. No
 * ttl ends and nobody polls: who is not woken waits for ever, a deadlock, which the search reports.
 * One in EVERY of each client's ends is open (there: about one in four, scattered). A wait of ours may end early,
 * LEAVES times. Nobody dies here, no message is lost: handoff_queue.pml.
 *
 * Checked   one holder; nobody waits beside a lock that is free; a Java that is awake, and so tries before the window
 *           is over, is passed by at most CLIENTS * (EVERY - 1) + 1 times from its subscription on: by the hold that
 *           took it before Java's second try, and by one after each end that is not open.
 * SLOW_JAVA takes no guard away and passes: a window may end before Java tries. Then nothing bounds its wait.
 * Flags, each takes one guard away:
 *   NO_WINDOW          no end is open
 *   EMPTY_QUEUE_CLOSED an end is open only if somebody of ours is in the queue
 *   WINDOW_TAKE        in a window whoever asks may take the lock
 *   NO_TELL_HEAD       the first in the queue is not told of a window
 *   NO_TELL_NEXT       the first in the queue leaves within a window, or behind Java, and the next is not told
 *   NO_PASS_ON         the first in the queue leaves, the lock is free without a window, and it is not passed on
 *   NO_ASK_AFTER       the window is over, and who was told of it does not ask
 *   NO_SECOND_ASK      who joins the channel does not ask again
 *   REACH_...          asserts that something cannot happen; must fail, else the model proves nothing */
/* Shows: P18, S19 (the yield window) */
#ifndef CLIENTS
#define CLIENTS 2
#endif
#ifndef EVERY
#define EVERY 2
#endif
#ifndef LEAVES
#define LEAVES 1
#endif
#define JAVA CLIENTS            /* holders: a client's number, JAVA, FREE */
#define FREE 255
#define MOST (CLIENTS * (EVERY - 1) + 1)

byte holder = FREE;
bool window = false;            /* `open` is in the queue, and not over */
byte q[CLIENTS + 1], waiting = 0;
bool at_channel[CLIENTS + 1];   /* the server counts it as a subscriber of the lock's channel */

/* What is on its way, or was heard and not yet looked at. Each is a hint, except a grant. */
bool zero[CLIENTS + 1];         /* `0` */
bool granted[CLIENTS];
bool opened[CLIENTS];           /* `open` */

bool sure[CLIENTS + 1];         /* it believes that it holds */
bool timer[CLIENTS];            /* it knows of a window, and asks when that is over */
bool subscribes[CLIENTS];            /* it has joined the channel, or is about to */
byte ends[CLIENTS];             /* modulo EVERY */
bool second_try = false;        /* Java has subscribed, and not tried since */
byte passed_by = 0;             /* wins of ours since then */
byte leaves = 0;
hidden byte i, n, g, is_first;

#define IN_LINE(c) (waiting > 0 && q[0] == c || waiting > 1 && q[1] == c || waiting > 2 && q[2] == c)

inline remove(c) {
  i = 0; n = 0;
  do
  :: i < waiting -> if :: q[i] != c -> q[n] = q[i]; n++ :: else fi; i++
  :: else -> break
  od;
  waiting = n;
  do :: n < CLIENTS -> q[n] = 0; n++ :: else -> break od
}

inline take_ticket(c) { if :: !IN_LINE(c) -> q[waiting] = c; waiting++ :: else fi }

inline publish() {
  i = 0;
  do
  :: i <= CLIENTS -> if :: at_channel[i] -> zero[i] = true :: else fi; i++
  :: else -> break
  od
}

inline somebody_listens() {
  n = 0; i = 0;
  do :: i <= CLIENTS -> if :: at_channel[i] -> n = 1 :: else fi; i++ :: else -> break od
}

/* The server makes c the holder. */
inline win(c) {
  assert(holder == FREE);
  holder = c;
  remove(c);
#ifndef SLOW_JAVA
  if :: at_channel[JAVA] -> passed_by++ :: else fi;
#endif
  assert(passed_by <= MOST)
#ifdef REACH_MOST
  ; assert(passed_by < MOST)
#endif
}

inline pass() {
  holder = FREE;
  if
  :: waiting > 0 -> g = q[0]; granted[g] = true; win(g)
  :: else -> publish()
  fi
}

inline tell_first() { if :: waiting > 0 -> g = q[0]; opened[g] = true :: else fi }

inline end_hold(c) {
  ends[c] = (ends[c] + 1) % EVERY;
  somebody_listens();
#ifdef NO_WINDOW
  n = 0;
#endif
#ifdef EMPTY_QUEUE_CLOSED
  if :: waiting == 0 -> n = 0 :: else fi;
#endif
  if
  :: n == 1 && ends[c] == 0 ->
     holder = FREE; window = true;
     publish();
#ifndef NO_TELL_HEAD
     tell_first()
#endif
  :: else -> pass()
  fi
}

/* c has the lock, or wants it no more: what it heard is looked at no more. */
inline forget(c) {
  granted[c] = false; opened[c] = false; zero[c] = false; timer[c] = false; subscribes[c] = false; at_channel[c] = false
}

inline subscribe(c) { if :: !subscribes[c] -> subscribes[c] = true :: else fi }

inline unsubscribe(c) { subscribes[c] = false; at_channel[c] = false; zero[c] = false }

/* The script, and its answer. (That a message may overtake the answer: handoff_queue.pml.) */
inline ask(c) {
  timer[c] = false;
  if
  :: holder == c -> got = true
  :: holder == JAVA -> take_ticket(c); subscribe(c)
  :: holder != c && holder < JAVA -> take_ticket(c); unsubscribe(c)
#ifdef WINDOW_TAKE
  :: holder == FREE && window -> win(c); got = true
#else
  :: holder == FREE && window ->
     take_ticket(c); unsubscribe(c);
#ifndef NO_ASK_AFTER
     timer[c] = true
#endif
#endif
  :: holder == FREE && !window ->
     if
     :: waiting == 0 || q[0] == c -> win(c); got = true
     :: else -> g = q[0]; granted[g] = true; win(g); take_ticket(c); unsubscribe(c)
     fi
  fi;
  if :: got -> forget(c) :: else fi
}

/* Out of the queue. What it may have been granted meanwhile is ended by `release`. */
inline leave(c) {
  is_first = (waiting > 0 && q[0] == c);
  remove(c); forget(c);
  if
  :: holder == FREE && !window && is_first ->
#ifdef REACH_PASS_ON
     assert(waiting == 0);
#endif
#ifndef NO_PASS_ON
     pass()
#endif
  :: (holder == FREE && window || holder == JAVA) && is_first ->
#ifndef NO_TELL_NEXT
     tell_first()
#endif
  :: else
  fi
}

proctype Client(byte c) {
  bool got, new;
end:
  do
  :: break
  :: new = true;
     do
     :: got -> break
     :: atomic { granted[c] -> forget(c); got = true }
     :: atomic {
          if
          :: new -> new = false
          :: opened[c] -> opened[c] = false
          :: zero[c] -> zero[c] = false
          :: timer[c] && !window
          :: subscribes[c] && !at_channel[c] ->
             at_channel[c] = true;
#ifdef NO_SECOND_ASK
             goto joined
#endif
          fi;
          ask(c)
        }
#ifdef NO_SECOND_ASK
joined: skip
#endif
     :: atomic { !got && !new && leaves < LEAVES -> leaves++; leave(c) }
        if :: holder == c -> goto release :: else -> goto left fi
     od;
     atomic { assert(holder == c && !sure[0] && !sure[1] && !sure[CLIENTS - 1] && !sure[JAVA]);
       sure[c] = true }
release:
     atomic { sure[c] = false; got = false; end_hold(c) }
left:
     skip
  od
}

proctype Java() {
  bool new, held_by_other;
end:
  do
  :: break
  :: new = true;
     do
     :: atomic { new || second_try || zero[JAVA] ->
          second_try = false; zero[JAVA] = false;
          if
          :: holder == FREE ->
#ifdef REACH_JAVA_IN_WINDOW
             assert(!(window && waiting > 0));
#endif
             holder = JAVA; at_channel[JAVA] = false; passed_by = 0; new = false
          :: holder != FREE && new -> new = false; held_by_other = true
          :: else
          fi }
        if
        :: holder == JAVA -> break
        :: holder != JAVA && held_by_other ->
           atomic { held_by_other = false; at_channel[JAVA] = true; second_try = true }
        :: else
        fi
     od;
     atomic { assert(!sure[0] && !sure[1] && !sure[CLIENTS - 1]); sure[JAVA] = true }
     atomic { sure[JAVA] = false; holder = FREE; publish() }
  od
}

proctype Time() {
end:
  do
#ifdef SLOW_JAVA
  :: window -> window = false
#else
  :: atomic { window && !zero[JAVA] && !second_try -> window = false }
#endif
  od
}

init {
  atomic {
    run Client(0); run Client(1);
#if CLIENTS > 2
    run Client(2);
#endif
    run Java(); run Time()
  }
}
