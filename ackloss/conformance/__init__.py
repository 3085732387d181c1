"""What every plug-in promises: tests that find those of this installation.

    pytest --pyargs ackloss.conformance -k NAME

runs those of one plug-in, whether it is in a package or in a folder that `ACKLOSS_PLUGINS` names.
"""
