/* handoff_time.pml - a grant is believed only while it is true (docs/protocol.md).
 *
 * Three clients of ours want the lock; client 0 wants it WAITS times, each time under a new hold id. Who ends a hold
 * passes the lock to the head of the queue and sends that client `grant h`. Commands, answers, messages and ends take
 * any time, and so may each client between any two steps (SIGSTOP): nothing but the clock of each decides. A connection
 * may break: the copy of an acquire that is on it runs at any later moment, or never, and the client asks again under
 * the same h. A waiter may leave at any moment. A message may get lost (more than BOX unread ones). All times are
 * relative: `first` = age of the first copy that could enqueue h, `left` = held_until - now. Drift and notice are
 * shown by local_lease.pml, and not repeated here.
 *
 * A grant says how long its ticket was in the queue, by the server's clock: `send time of the first copy + that` is a
 * moment before the grant was written, and the hold counts from it. What separates the two is `lag`: from the sending
 * of the first copy until the ticket was taken. So the age of a grant, as its client reckons, is lag + the age of the
 * message.
 *
 * Checked   no two clients valid at once, each by its own clock;
 *           a hold that begins with a grant has at least half of the grant's ttl left;
 *           a grantee that does nothing costs the others CAP (G) at most;
 *           an end that has run is final: its h is never again in the lock or in the queue;
 *           when all have finished and nothing is under way, the lock is free, though no ttl has ended.
 * Flags, each takes one guard away:
 *   FROM_RECEIPT   a grant counts from the moment it is read
 *   FROM_LAST      ... from the last copy that asked under this h (a poll)
 *   WAIT_FROM_LAST ... from that copy's sending + the time in the queue
 *   NO_RECEIPT     with FORWARD: a grant that was written after it was read, as its client reckons, is believed
 *   NO_ID          a grant names the client, not the wait
 *   NO_REFRESH     an acquire that finds its own hold answers "yours" without raising the ttl
 *   NO_RAISE_ONLY  PEXPIRE always: a shorter nested lease shortens what the grant gave
 *   NO_CONFIRM     a grant that came late is taken as it is
 *   NO_CAP         a grant sets the whole lease
 *   NO_TOMBSTONE        end does not remember holds with a copy in doubt, or acquire does not look
 *   NO_DOUBT       the client forgets that a copy is in doubt as soon as a later one is answered
 *   NO_HAND_BACK   a grant for a wait that is over is ignored
 *   LEAVE_BLIND    who leaves takes its member out of the queue, and does not look whether it has the lock by now
 *   NO_MEMBER      the end of a hold does not take its member out of the queue (a late poll put it there again)
 *   REACH_...      asserts that something cannot happen; must fail, else the model proves nothing
 * Flags that add:
 *   LOST_END       one end of a waiter that left never runs, as its client was cut off for too long
 *   BACK           the server's clock steps back, once: ttls last longer, times in the queue are too short
 *   FORWARD        it steps forward, once, between a ticket's taking and the grant: the time in the queue is too long.
 *                  (That ttls are too short then is the known harm, see docs/safety.md, and not in here)
 *   PROMPT         no message is under way when time goes on. FORWARD without it fails: a step and a message that is
 * late                  by as much, together, let two hold */
/* Shows: P8, S13 (FORWARD, BACK), S20 (NO_CAP) */
#ifndef LEASE
#define LEASE 3
#endif
#ifndef CAP
#define CAP 2
#endif
#ifndef WAITS
#define WAITS 2
#endif
#ifndef CLIENTS
#define CLIENTS 3
#endif
#ifndef BREAKS
#define BREAKS 1
#endif
#ifndef NESTS
#define NESTS 0
#endif
#ifndef RENEWS
#define RENEWS 0
#endif
#ifndef POLLS
#define POLLS 1
#endif
#define SHORT 1                 /* fixed lease of a nested acquire */
#define BOX 2
#define SLOT(c, n) ((c) * BOX + (n))
#define IDS (CLIENTS + WAITS - 1)
#define OF(h) ((h) > CLIENTS -> 0 : (h) - 1)
#ifdef BACK
#define MOST_IDLE (CAP + 1)
#else
#define MOST_IDLE CAP
#endif
#ifdef NO_CAP
#define GRANT LEASE
#else
#define GRANT CAP
#endif

/* The server. */
byte holder = 0, ttl = 0;       /* 0: free, else a hold id */
byte q[IDS], qn = 0;
byte lag[IDS + 1];              /* of a ticket: see above */
#ifdef WAIT_FROM_LAST
byte in_queue[IDS + 1], box_wait[CLIENTS * BOX];
#endif
#if defined(BACK) || defined(FORWARD)
bool stepped = false;
#endif
#ifdef FORWARD
bool early[IDS + 1];            /* its time in the queue is one tick too long */
bool box_early[CLIENTS * BOX];
#endif
bool tombstone[IDS + 1];
bool over[IDS + 1];             /* an end of it has run */
bool unclaimed = false;         /* passed to a client that has not taken notice yet */
byte idle = 0;                  /* ... for so many ticks */

/* The network. */
byte box[CLIENTS * BOX];        /* unread grants of a client, the oldest first; 0: none */
byte box_age[CLIENTS * BOX];    /* how old they are, as the client reckons */
bool swallowed = false;          /* a message did not fit */
bool late[IDS + 1];             /* a copy of acquire(h) on a broken connection */
mtype = { none, acquire, renew, nest, unrun, yes, no, ended_before };
mtype op[CLIENTS] = none, reply[CLIENTS] = none;        /* the command under way, and its answer */
byte sent[CLIENTS];             /* its age */
byte ends[IDS + 1];             /* under way: 1 end(h), 2 with doubt */
byte breaks = 0, nests = 0, renews = 0, polls = 0;
byte lost_end = 0;

/* The clients. */
byte h[CLIENTS], waits[CLIENTS];        /* current hold id, 0: none */
bool held[CLIENTS], doubt[CLIENTS];
byte first[CLIENTS], left[CLIENTS];
#if defined(FROM_LAST) || defined(WAIT_FROM_LAST)
#define LAST
byte last[CLIENTS];
#endif
hidden byte i, k, m, rem, age;
hidden byte was_head;

#define VALID(c) (held[c] && left[c] > 0)
#if CLIENTS > 2
#define EXCLUSION assert(!(VALID(0) && VALID(1)) && !(VALID(0) && VALID(2)) && !(VALID(1) && VALID(2)))
#else
#define EXCLUSION assert(!(VALID(0) && VALID(1)))
#endif

#if CLIENTS > 2
#define ALL_IDLE (h[0] + h[1] + h[2] == 0 && box[SLOT(2, 0)] == 0 && ends[3] == 0 && !late[3])
#else
#define ALL_IDLE (h[0] + h[1] == 0)
#endif
#define QUIET (ALL_IDLE && box[SLOT(0, 0)] + box[SLOT(1, 0)] == 0 && ends[1] + ends[2] + ends[IDS] == 0 && \
  !late[1] && !late[2] && !late[IDS])

inline raise(lease) {
#ifdef NO_RAISE_ONLY
  ttl = lease
#else
  if :: ttl < lease -> ttl = lease :: else fi
#endif
}

inline queued(x) { i = 0; do :: i < qn && q[i] != x -> i++ :: else -> break od }        /* i == qn: it is not */

inline dequeue(x) {
  queued(x);
  if
  :: i < qn -> qn--; do :: i < qn -> q[i] = q[i + 1]; i++ :: else -> break od; q[qn] = 0; lag[x] = 0
  :: else
  fi
}

inline enqueue(x) {
  queued(x);
  if
  :: i == qn -> q[qn] = x; qn++;
     lag[x] = (h[OF(x)] == x -> first[OF(x)] : GRANT);
#ifdef FORWARD
     early[x] = false;
#endif
#ifdef WAIT_FROM_LAST
     in_queue[x] = 0;
#endif
  :: else
  fi
}

inline tell(x) {
  k = (box[SLOT(OF(x), 0)] == 0 -> 0 : 1);
  if
  :: box[SLOT(OF(x), k)] == 0 ->
     box[SLOT(OF(x), k)] = x; box_age[SLOT(OF(x), k)] = lag[x];
#ifdef FORWARD
     box_early[SLOT(OF(x), k)] = early[x];
#endif
#ifdef WAIT_FROM_LAST
     box_wait[SLOT(OF(x), k)] = in_queue[x];
#endif
  :: else -> swallowed = true
  fi;
  k = 0
}

inline forget_grant(c, n) {
  box[SLOT(c, n)] = 0; box_age[SLOT(c, n)] = 0;
#ifdef FORWARD
  box_early[SLOT(c, n)] = false;
#endif
#ifdef WAIT_FROM_LAST
  box_wait[SLOT(c, n)] = 0;
#endif
}

inline read_grant(c) {          /* m: of which hold; age: how old it is, as the client reckons */
  m = box[SLOT(c, 0)];
  age = box_age[SLOT(c, 0)];
#ifdef WAIT_FROM_LAST
  age = (last[c] > box_wait[SLOT(c, 0)] -> last[c] - box_wait[SLOT(c, 0)] : 0);
#endif
  rem = (age < GRANT -> GRANT - age : 0);
#ifdef FORWARD
  if
  :: box_early[SLOT(c, 0)] && age > 0 && age <= GRANT -> rem++
  :: box_early[SLOT(c, 0)] && age == 0 ->       /* written after it was read? Then the server's clock was set */
#ifdef NO_RECEIPT
     rem++
#else
     rem = (first[c] < GRANT -> GRANT - first[c] : 0)
#endif
  :: else
  fi;
#endif
  box[SLOT(c, 0)] = box[SLOT(c, 1)];
  box_age[SLOT(c, 0)] = box_age[SLOT(c, 1)];
#ifdef FORWARD
  box_early[SLOT(c, 0)] = box_early[SLOT(c, 1)];
#endif
#ifdef WAIT_FROM_LAST
  box_wait[SLOT(c, 0)] = box_wait[SLOT(c, 1)];
#endif
  forget_grant(c, 1);
  age = 0
}

inline free() { holder = 0; ttl = 0; unclaimed = false; idle = 0 }

inline pass() {                 /* the lock is free */
  if
  :: qn > 0 -> holder = q[0]; ttl = GRANT; unclaimed = true; idle = 0;
     tell(holder); dequeue(holder); assert(!over[holder])
  :: else
  fi
}

inline run_acquire(x, answer) {
  if
#ifndef NO_TOMBSTONE
  :: tombstone[x] -> answer = ended_before
#ifdef REACH_TOMBSTONE
     ; assert(false)
#endif
#endif
  :: else ->
     if
     :: holder == x -> answer = yes; unclaimed = false; idle = 0;
#ifndef NO_REFRESH
        raise(LEASE)
#endif
     :: holder == 0 && (qn == 0 || q[0] == x) ->
        dequeue(x); holder = x; ttl = LEASE; answer = yes
     :: holder == 0 && qn > 0 && q[0] != x -> enqueue(x); pass(); answer = no
     :: holder != 0 && holder != x -> enqueue(x); answer = no
     fi;
     assert(!over[x])
  fi
}

inline run_end(x) {
  was_head = (qn > 0 && q[0] == x);
  if
#ifdef LEAVE_BLIND
  :: holder == x && ends[x] == 3 -> skip
#endif
#ifdef NO_MEMBER
  :: holder != x && ends[x] == 3 -> skip
#endif
  :: else ->
     dequeue(x);
     if
     :: holder == x -> free(); pass()
     :: holder != x -> if :: was_head && holder == 0 -> pass() :: else fi
     fi
  fi;
  if :: ends[x] == 2 -> tombstone[x] = true :: else fi;
  ends[x] = 0; over[x] = true
}

inline send_end(x, in_doubt) {
  if :: ends[x] == 0 || in_doubt -> ends[x] = (in_doubt -> 2 : 1) :: else fi
}

inline send(c, what) { op[c] = what; reply[c] = unrun; sent[c] = 0;
#ifdef LAST
  last[c] = 0
#endif
}
inline clear(c) { op[c] = none; reply[c] = none; sent[c] = 0 }
inline forget(c) { clear(c); h[c] = 0; held[c] = false; doubt[c] = false; first[c] = 0; left[c] = 0;
#ifdef LAST
  last[c] = 0
#endif
}
inline enter(c, ticks) {
  held[c] = true; left[c] = ticks;
  EXCLUSION;
  if :: holder == h[c] -> unclaimed = false; idle = 0 :: else fi
}

inline granted(c) {
  read_grant(c);
  if
#ifdef NO_ID
  :: h[c] != 0 && !held[c] ->
#else
  :: h[c] == m && !held[c] ->
#endif
#if defined(FROM_RECEIPT)
     rem = GRANT;
#elif defined(FROM_LAST)
     rem = (last[c] < GRANT -> GRANT - last[c] : 0);
#endif
     if
#ifdef NO_CONFIRM
     :: rem > 0 -> enter(c, rem); assert(2 * rem >= GRANT)
     :: rem == 0 -> skip
#else
     :: 2 * rem >= GRANT ->
#ifdef REACH_LONG_WAIT
        assert(first[c] < GRANT);
#endif
        enter(c, rem)
     :: 2 * rem < GRANT ->
#ifdef REACH_CONFIRM
        assert(holder != m);
#endif
        if :: op[c] == none -> send(c, acquire) :: else fi
#endif
     fi
#ifdef NO_ID
  :: h[c] == 0 || held[c] -> skip
#else
  :: h[c] == m && held[c] -> skip
  :: h[c] != m ->
#ifdef REACH_STALE
     assert(h[c] == 0);
#endif
#ifndef NO_HAND_BACK
     send_end(m, false)
#endif
#endif
  fi;
  m = 0; rem = 0
}

proctype Client(byte c) {
  do
  :: atomic { h[c] == 0 && waits[c] < (c == 0 -> WAITS : 1) ->
       h[c] = (waits[c] == 0 -> c + 1 : CLIENTS + waits[c]); waits[c]++; send(c, acquire) }
  :: atomic { h[c] != 0 && !held[c] && op[c] == none && polls < POLLS -> polls++; send(c, acquire) }

  :: atomic { reply[c] == unrun ->
       if
       :: op[c] == acquire -> run_acquire(h[c], reply[c])
       :: op[c] == renew -> if :: holder == h[c] ->
            raise(LEASE); unclaimed = false; idle = 0; reply[c] = yes
          :: else -> reply[c] = no fi
       :: op[c] == nest -> if :: holder == h[c] ->
            raise(SHORT); unclaimed = false; idle = 0; reply[c] = yes
          :: else -> reply[c] = no fi
       fi;
       if
       :: reply[c] == no -> assert(op[c] == acquire || !VALID(c)); clear(c)    /* "no" changes nothing: read at once */
#ifdef NO_DOUBT
          ; doubt[c] = false
#endif
       :: else
       fi;
       i = 0 }
  :: atomic { op[c] != none && reply[c] != unrun ->
       rem = (op[c] == nest -> SHORT : LEASE);
       rem = (sent[c] < rem -> rem - sent[c] : 0);
       assert(reply[c] != ended_before);
#ifdef NO_DOUBT
       doubt[c] = false;
#endif
       if
       :: reply[c] == yes && held[c] && left[c] > 0 -> if :: left[c] < rem -> left[c] = rem; EXCLUSION :: else fi
       :: reply[c] == yes && !held[c] && rem > 0 -> enter(c, rem)
       :: else
       fi;
       if :: held[c] -> clear(c) :: else -> send(c, acquire) fi;        /* too late: as if it had been "no" */
       rem = 0 }

  :: atomic { box[SLOT(c, 0)] != 0 -> granted(c) }

  /* leaves; a command that it asked has run, as its end goes the same way behind it */
  :: atomic { h[c] != 0 && !held[c] && reply[c] != unrun ->
       send_end(h[c], doubt[c]);
#ifdef LEAVE_BLIND
       if :: !doubt[c] -> ends[h[c]] = 3 :: else fi;
#endif
       forget(c) }
  /* releases, or ends what it has lost */
  :: atomic { held[c] && reply[c] != unrun ->
#ifdef REACH_LOST
       assert(left[c] > 0);
#endif
       send_end(h[c], doubt[c]);
#ifdef NO_MEMBER
       if :: !doubt[c] -> ends[h[c]] = 3 :: else fi;
#endif
       forget(c) }
  :: atomic { VALID(c) && op[c] == none && renews < RENEWS -> renews++; send(c, renew) }
  :: atomic { VALID(c) && op[c] == none && nests < NESTS -> nests++; send(c, nest) }

  :: atomic { breaks < BREAKS && op[c] == acquire -> breaks++; doubt[c] = true;
       late[h[c]] = (reply[c] == unrun); send(c, acquire) }
  od
}

proctype World() {
  do
  :: atomic { ends[1] > 0 -> run_end(1); i = 0 }
  :: atomic { ends[2] > 0 -> run_end(2); i = 0 }
#if IDS > 2
  :: atomic { ends[3] > 0 -> run_end(3); i = 0 }
#endif
#if IDS > 3
  :: atomic { ends[4] > 0 -> run_end(4); i = 0 }
#endif
#ifdef LOST_END
  :: atomic { lost_end == 0 && qn > 0 && ends[q[0]] == 1 -> lost_end = q[0]; ends[q[0]] = 0 }
#endif
  :: atomic { late[1] -> late[1] = false; if :: run_acquire(1, m) :: skip fi; m = 0; i = 0 }
  :: atomic { late[2] -> late[2] = false; if :: run_acquire(2, m) :: skip fi; m = 0; i = 0 }
#if IDS > 2
  :: atomic { late[3] -> late[3] = false; if :: run_acquire(3, m) :: skip fi; m = 0; i = 0 }
#endif
#if IDS > 3
  :: atomic { late[4] -> late[4] = false; if :: run_acquire(4, m) :: skip fi; m = 0; i = 0 }
#endif

#ifdef BACK
  :: d_step { !stepped && (holder != 0 || qn > 0) -> stepped = true;
       if :: holder != 0 -> ttl++ :: else fi;
       k = 0; do :: k < qn -> if :: lag[q[k]] < GRANT -> lag[q[k]]++ :: else fi; k++ :: else -> break od; k = 0 }
#endif
#ifdef FORWARD
  :: d_step { !stepped && qn > 0 -> stepped = true;
       k = 0; do :: k < qn -> early[q[k]] = true; k++ :: else -> break od; k = 0 }
#endif

  :: d_step {                                           /* time */
#ifdef PROMPT
       box[SLOT(0, 0)] == 0 && box[SLOT(1, 0)] == 0 && (CLIENTS < 3 || box[SLOT(CLIENTS - 1, 0)] == 0);
#endif
       assert(!QUIET || swallowed || holder == 0);
       k = 0;
       do
       :: k < CLIENTS * BOX -> if :: box[k] != 0 && box_age[k] < GRANT -> box_age[k]++ :: else fi; k++
       :: else -> break
       od;
       k = 0;
       do
       :: k < CLIENTS ->
          if :: h[k] != 0 && !held[k] && first[k] < GRANT -> first[k]++ :: else fi;
#ifdef LAST
          if :: h[k] != 0 && !held[k] && last[k] < LEASE -> last[k]++ :: else fi;
#endif
          if :: op[k] != none && sent[k] < LEASE -> sent[k]++ :: else fi;
          if :: left[k] > 0 -> left[k]-- :: else fi;
          k++
       :: else -> break
       od;
       k = 0;
#ifdef WAIT_FROM_LAST
       do :: k < qn -> if :: in_queue[q[k]] < LEASE -> in_queue[q[k]]++ :: else fi; k++ :: else -> break od;
       k = 0;
#endif
       if :: ttl > 0 -> ttl-- :: else fi;
       if :: unclaimed -> idle++; assert(idle <= MOST_IDLE) :: else fi;
       if :: ttl == 0 -> free() :: else fi
     }
  od
}
init { atomic { run Client(0); run Client(1);
#if CLIENTS > 2
  run Client(2);
#endif
  run World() } }
