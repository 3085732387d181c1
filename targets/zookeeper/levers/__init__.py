"""What faults of single requests need to know of ZooKeeper.

requests  what its requests and errors are called, and what a plan may name
proxies   the proxies beside its servers
"""
