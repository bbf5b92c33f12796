"""All scenarios, in the order of the table in the design."""
from . import (async_in_flight, barrier, condition, drain, held, latch, multilock, nested, open, own_key, places,
               quorum, rwlock, semaphore, shared_key)


def all_scenarios(quick):
    return [*own_key.SCENARIOS, *async_in_flight.SCENARIOS, *nested.SCENARIOS, *shared_key.SCENARIOS,
            *(held.QUICK if quick else held.FULL), *drain.SCENARIOS,
            *places.SCENARIOS, *quorum.SCENARIOS, *semaphore.SCENARIOS, *rwlock.SCENARIOS, *latch.SCENARIOS,
            *barrier.SCENARIOS, *condition.SCENARIOS,
            *multilock.SCENARIOS, *open.SCENARIOS]
