"""The command line.

main.py        the entry: which commands there are, and what becomes of errors
command.py     what all commands share: examples, common options, an app that may be bound
settings.py    which data directory, broker and app a command works on
loading.py     what is told of an error in the user's own file
connection.py  opens the broker for the time of a command
output.py      tables, JSON, and text that cannot harm a terminal
moments.py     points in time and sizes as people write them
lines.py       how a line becomes a key and a value
formats.py     how a record becomes a line
reading.py     records of several partitions in one sequence
sharing.py     the same for a member of a group
progress.py    what a run has done so far, drawn live or line by line
reference.py   docs/cli.md, generated

The other files are one command or group of commands each. Only the file of the command at hand is imported, so that
``millstream --help`` and completion do not wait for Spark or Arrow.
"""
