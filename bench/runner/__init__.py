"""The runner of the benchmarks: see bench/README.md."""
