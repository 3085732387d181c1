"""Reads a log back as columns: raw Fetch requests, and records decoded by numpy, not one by one.

fetching   one partition after the other, from its leader; what is tried again and what is an error
record_set what a broker stores: batches and messages, one after the other
batches    format 2: checksums, and where records begin
messages   formats 0 and 1, compressed ones too
records    decoded records, whatever their format
numbers    integers at many places of a buffer at once
codecs     decompression
columns    records as columns of `harness.history.READS`

A log is read some 20 to 50 times as fast as by a client library, which makes an object of each
record (`python -m bench.final_read`). Requests are encoded by kafka-python, checksums and
compression are libraries'; ours is the way through a record set.
"""
