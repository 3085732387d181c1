"""Images of nodes, made locally from the distribution's packages and Maven artefacts.

    recipe    what an image is made of, as data; its tag is the recipe's hash
    building  a base (made by mmdebstrap, or the user's own), packages, jars: an image
    maven     a version's jars by the ordinary Maven client
    oneoff    one command in a throw-away container of an image, with its files back

What depends on an image and is dear to make (class-data archives, formatted checkpoints) is made
once per image and kept in the cache folder; what that is, the targets know.
"""
