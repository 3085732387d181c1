"""Images of nodes, made locally from the distribution's packages and Maven artefacts."""
