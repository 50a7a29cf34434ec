"""The command line.

main.py           the entry point: the list of commands, and error handling
command.py        what all commands share: examples, common options, an optional bound app
settings.py       the data directory, broker and app of a command
loading.py        errors in the user's own file
connection.py     the broker of a command
output.py         tables, JSON and messages, safe for a terminal
option_types.py   times, durations and sizes as options
line_format.py    converts lines to keys and values
formats.py        converts records to lines
group_reading.py  reads records as a member of a consumer group
progress.py       the progress of a run, live or line by line
reference.py      generates docs/cli.md

Each of the other files is one command or group of commands. Only the file of the invoked command is imported, so that
``millstream --help`` and completion do not wait for Spark or Arrow.
"""
