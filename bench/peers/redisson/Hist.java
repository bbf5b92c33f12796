/** The buckets of bench/hist.c. */
final class Hist {
    private final long[] buckets = new long[1184];

    void add(long ns) {
        int bucket;
        if (ns < 64) {
            bucket = (int) Math.max(ns, 0);
        } else {
            int shift = 63 - Long.numberOfLeadingZeros(ns) - 5;
            bucket = shift * 32 + (int) (ns >> shift);
        }
        buckets[Math.min(bucket, buckets.length - 1)]++;
    }

    void merge(Hist other) {
        for (int i = 0; i < buckets.length; i++) {
            buckets[i] += other.buckets[i];
        }
    }

    @Override
    public String toString() {
        StringBuilder text = new StringBuilder("[");
        for (int i = 0; i < buckets.length; i++) {
            if (buckets[i] > 0) {
                text.append(text.length() > 1 ? ",[" : "[").append(i).append(',').append(buckets[i]).append(']');
            }
        }
        return text.append(']').toString();
    }
}
