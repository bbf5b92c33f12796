"""The drivers' histograms: buckets as in bench/hist.c."""


def add(into, pairs):
    for bucket, count in pairs:
        into[bucket] = into.get(bucket, 0) + count


def middle_ns(bucket):
    if bucket < 64:
        return bucket
    shift = bucket // 32 - 1
    return (bucket - shift * 32 + 0.5) * (1 << shift)


def percentile_us(hist, share):
    total = sum(hist.values())
    if total == 0:
        return None
    seen = 0
    for bucket in sorted(hist):
        seen += hist[bucket]
        if seen >= share * total:
            return middle_ns(bucket) / 1000
    return None
