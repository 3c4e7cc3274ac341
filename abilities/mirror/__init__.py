"""Keep a folder of Markdown files and the memories of a namespace equal, in both directions.

1. A memory that is not archived has one file. Its front matter says the key and every field that is
   not at its default, and its body is the content (`notes`). The key alone identifies a file: it
   may be moved. A file without a key gets one from its path, and its memory moves with it.
2. A new file has the plain name of its key if some file system cannot confuse it with a file that
   is there, and otherwise a marked one (`folder.name_file`), so that an Obsidian link finds it.
3. ``.abilities/`` in the folder has a state per store, which git ignores: for each key the file's
   path, status and hash, and the version of the memory that it is equal to (`folder`). Versions
   belong to one store, so no file contains them, and git shares nothing that confuses another.
4. A run compares the state with both sides (`syncing`). If one side changed, the other follows. If
   both did, the store wins, and the file's text stays beside it as ``NAME.conflict.md``. A file
   that the state does not know, and that says what an earlier version said, has not changed.
5. Files are written to the store as a "store" operation of `remember`, with ``if_version``.
6. Every step may be repeated. Equal sides are only noted in the state, so a run that was killed is
   finished by the next one, and a lost state costs nothing but conflicts that are shown.
7. A file is removed only if the store knows that its memory was archived, renamed or deleted, and a
   memory is archived only on request, up to a tenth of the namespace.
"""
