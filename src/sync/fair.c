/* The fair lock's wait, Redisson's RFairLock as far as Redis sees it, by the machine that drives the plain one:
 *
 *   ask (no place yet) -> join our own channel -> it is confirmed: ask for a place -> park -> ask -> ...
 *
 * until the answer is "yours". A place is asked for only when we listen: who is in the queue and does not listen is
 * dead to everybody else. We park until our channel speaks, or as long as the last answer said: the holder's ttl, or
 * the time that the first in the queue of a free lock is given. Each ask keeps our score ahead of the clock, so that
 * no client of Redisson's takes us for dead however long we wait. Who leaves takes its place along (fair_end, by
 * hlk_request_leave), whatever made it leave. */
#include "sync/fair.h"

void hlk_fair_asks(struct hlk_request *r)
{
    hlk_client *client = r->lock->client;
    bool hears = hlk_channel_confirmed(&client->channels, &r->ear);
    if (r->machine.once && hlk_undos_count(&client->undos) == 0)
        r->asked_again = true; /* then no end of ours is what it finds: no reason to ask twice */
    r->q.join = !r->machine.once && (r->queued || hears);
    r->queued |= r->q.join;
}

void hlk_fair_renumbered(struct hlk_request *r)
{
    hlk_channel_leave(&r->lock->client->channels, &r->ear);
    r->machine.joined = false;
    r->queued = false;
}
