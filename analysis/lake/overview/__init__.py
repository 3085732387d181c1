"""What all campaigns of a lake say together, without any of their folders.

    chosen     the campaigns that are shown: each once, real or simulated
    planned    their cells, with what distinguishes one plan from another
    pools      runs of several campaigns counted together, and the rates across versions
    model      the document: the JSON of `lake report`
    document   puts it together
    sentences  what a reader has to know before a number is believed

Runs of two campaigns are counted together only where the lake proves that the plan was the same.
A name proves nothing: two campaigns may use one name for two plans.
"""
