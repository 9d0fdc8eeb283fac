"""Maintenance: what is swept, cloned, tagged or branched beside the versions."""
