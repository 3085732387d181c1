"""Images of nodes, built locally from the distribution's packages and Maven artefacts.

    recipe    what an image is made of, as data; its tag is the recipe's hash; where a server's
              programs come from
    building  builds an image: a base (by mmdebstrap, or the user's own), packages, jars
    java      the jars of a version, fetched by the ordinary Maven client; programs of ours
    daemon    the Docker daemon of this machine; one command in a throw-away container of an image,
              whose files are returned, such as the libfaketime library of the infrastructure image
    keeping   what is made once per machine: its locks, its place, progress messages

What depends on an image and takes long to make (class-data archives, formatted checkpoints) is made
once per image by its target and kept in the cache folder.
"""
