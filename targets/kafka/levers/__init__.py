"""Kafka's own levers: what a fault needs that only Kafka can do.

leaders     leaders that can be moved on request, whichever the mode
own         all of them, for a run
leadership  the lever that moves them
requests    what requests and errors are called, and what a plan may name
carried     which errors answers carry
proxies     the proxies beside brokers and controllers
topic_ids   by what requests name a topic besides its name
"""

from __future__ import annotations
