"""What `scripts.bench_decode` is made of.

points, cost: what is measured and what it must cost. subject: the models. streams: the caller whose clock counts.
grid, embedded, gaps, start: the measurements. trace: what the device did. record, tables: the file of rows and
what is shown of it.
"""
