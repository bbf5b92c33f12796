/* handoff_wake.pml - the direct hand-off loses no waiter (docs/protocol.md).
 *
 * Three clients, two waits each at most. The subscriber connection of client 0 breaks BREAKS times at any moment, and
 * the server may count the dead socket for a while (half open); a waiter may leave; one enqueue has a late second copy.
 * KILL: client 2 may die at any moment. A head whose inbox has no subscriber is skipped. Only a dead holder's lease
 * ends. A waiter asks again by itself when the lock is free, as it does when the ttl it last read is over: so this
 * model shows that no lock is left with nobody; that a waiter beside a free lock is woken: handoff_queue.pml. Clients 1
 * and 2 may always leave: who waits for ever is seen at client 0, whose second wait does not leave.
 *
 * Checked   one holder; client 0 never waits for ever, for no lock stays with nobody (a deadlock, which
 *           the search reports); no held lock whose id nobody wants while no message is under way.
 * Flags, each takes one guard away:
 *   NO_ASK_AFTER     after a new subscription the client does not ask for its waits
 *   ASK_UNCONFIRMED  it asks before the new subscription is confirmed
 *   NO_HAND_BACK     a grant for a wait that is over is ignored
 *   LEAVE_BLIND      leave takes the member out of the queue only; a grant already made stays
 * Not here: the open window and a Java client (handoff_share.pml); a refused pass, waits that are inherited, the order
 * of the queue (handoff_queue.pml). */
/* Shows: P12 */
#ifndef BREAKS
#define BREAKS 1
#endif
#define NC 3
byte holder = 0;                   /* 0 free, else id of wait */
byte q[6]; byte qn = 0;
chan box[NC] = [4] of { byte };
bool srvsub[NC];                   /* server counts a receiver */
bool half[NC];                     /* ... on a dead socket: messages go nowhere */
bool live[NC] = true; bool bel[NC]; bool done[NC] = false;
byte id[NC]; bool lateEnq = false, usedLate = false; byte lateId;
byte breaks = 0;
hidden byte g, j, k, m; hidden byte f;
#define CL(h) (((h)-1) % NC)
inline inq(h, f) { f = 0; j = 0; do :: j < qn -> if :: q[j] == h -> f = 1 :: else fi; j++ :: else -> break od }
inline qdel(h) { j = 0; k = 0; do :: j < qn -> if :: q[j] != h -> q[k] = q[j]; k++ :: else fi;
  j++ :: else -> break od; qn = k }
inline grant() {
  do
  :: holder == 0 && qn > 0 ->
     g = q[0]; qdel(g);
     if
     :: srvsub[CL(g)] -> holder = g; if :: !half[CL(g)] && live[CL(g)] -> box[CL(g)]!g :: else fi
     :: else
     fi
  :: else -> break
  od
}
inline acquire(h, r) {
  if
  :: holder == h -> r = 1
  :: else ->
     inq(h, f);
     if :: !f -> assert(qn < 6); q[qn] = h; qn++ :: else fi;
     r = 0;
     if
     :: holder == 0 && q[0] == h -> qdel(h); holder = h; r = 1
     :: holder == 0 && q[0] != h -> grant()
     :: else
     fi
  fi
}
inline finish(h) { qdel(h); if :: holder == h -> holder = 0; grant() :: else fi }
inline leave(h) { qdel(h);
#ifndef LEAVE_BLIND
  if :: holder == h -> holder = 0; grant() :: else fi
#endif
}
proctype Client(byte c) {
  byte r; bool sub = true; byte w = 0;
  {
  do
  :: w < 2 ->
     atomic { w++; id[c] = c + 1 + NC * (w - 1); acquire(id[c], r);
       if :: !usedLate && c == 1 && w == 1 -> usedLate = true; lateEnq = true; lateId = id[c] :: true fi }
     do
     :: atomic { r == 1 -> assert(!(bel[0] && live[0]) && !(bel[1] && live[1]) && !(bel[2] && live[2])); bel[c] = true }
        atomic { bel[c] = false; finish(id[c]); id[c] = 0; r = 0 } break
     :: atomic { r == 2 -> r = 0 } break
     :: atomic { r == 0 && sub && box[c]?[m] -> box[c]?m;
          if
          :: m == id[c] -> r = 1
          :: else ->
#ifndef NO_HAND_BACK
             finish(m)
#else
             skip
#endif
          fi }
     :: atomic { r == 0 && holder == 0 -> acquire(id[c], r) }            /* poll: the lease is over */
     :: atomic { r == 0 && (c != 0 || (sub && w == 1)) -> leave(id[c]); id[c] = 0;
       r = 2 }             /* timed out or cancelled */
     :: atomic { r == 0 && c == 0 && sub && breaks < BREAKS -> breaks++; sub = false; half[c] = true;
          do :: box[c]?m :: empty(box[c]) -> break od }                  /* connection breaks under the client */
     :: !sub && r == 0 ->
#ifdef ASK_UNCONFIRMED
        atomic { acquire(id[c], r) }
#endif
        atomic { srvsub[c] = true; half[c] = false; sub = true }         /* subscribed again, confirmed */
#ifndef NO_ASK_AFTER
#ifndef ASK_UNCONFIRMED
        atomic { if :: r == 0 -> acquire(id[c], r) :: else fi }
#endif
#endif
     od
  :: break
  od;
  /* idle client stays reachable and hands back what it does not want, until all is over */
  done[c] = true;
end: do
  :: atomic { box[c]?[m] -> box[c]?m;
#ifndef NO_HAND_BACK
       finish(m)
#endif
     }
  od
  } unless { !live[c] }
}
proctype Server() {                       /* things that happen to the server and the network */
  byte r;
endS: do
  :: atomic { lateEnq -> lateEnq = false;
       if
       :: holder == 0 && qn == 0 && id[1] != lateId     /* it would take: the tombstones stops it, see a_retry.pml */
       :: else -> acquire(lateId, r); r = 0
       fi }
  :: atomic { half[0] && srvsub[0] -> srvsub[0] = false; half[0] = false }   /* server notices the dead socket */
  :: atomic { holder != 0 && !live[CL(holder)] -> holder = 0 }             /* lease of a dead holder ends */
  :: atomic { !live[2] && srvsub[2] -> srvsub[2] = false }
  od
}
proctype Reaper() { if :: atomic { !done[2] -> live[2] = false } :: true fi }
init { atomic { srvsub[0] = true; srvsub[1] = true; srvsub[2] = true; run Client(0); run Client(1); run Client(2);
  run Server()
#ifdef KILL
 ; run Reaper()
#endif
 }
}
/* a held lock whose id nobody wants and no message on its way is an orphan */
#define WANTED(h) (id[CL(h)] == h || len(box[CL(h)]) > 0 || half[CL(h)] || !live[CL(h)])
active proctype Watch() {
endW: atomic { (holder != 0 && !WANTED(holder)) -> assert(false) } }
