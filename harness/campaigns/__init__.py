"""Campaigns: a matrix of many runs, executed by workers, resumable at any instant.

plan       the campaign file: a base plan, axes, repetitions, budget, and the policy's exit code
loading    reads a campaign file with its base plan
folder     a campaign's folder, and the runs that a path or a URL names
journal    the append-only journal, and the state of every run by it: where `resume` continues
sharing    which cells share a run, and which must
worker     a process that keeps a cluster and executes one run after another on it
scheduler  assigns runs to workers whatever happens to one of them; how long that will take
archive    copies of judged runs at a URL; deletes the bulk of runs that nobody will inspect
"""
