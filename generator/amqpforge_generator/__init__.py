"""Protocol definitions in, source files out: the generator behind ``amqpforge-generate``.

A definition file becomes a raw ``document``, the documents of a dialect become one resolved ``model``, and a
*target* (a folder of templates with a ``target.toml``) renders the model into files. Nothing here is imported
by what it generates. Importing the package loads nothing else: an up-to-date tree is recognised before any
parser, template engine or formatter is needed.
"""

from __future__ import annotations
