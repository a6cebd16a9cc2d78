#!/bin/sh
# Any program can be an agent: it gets the prompt on its standard input. This one keeps what it was
# told, does the next task that it was told of, and says so.
cat > ../told.txt
task=$(sed -n '/^## The next task/,/^##/p' ../told.txt | sed -n 3p)
echo "How to call it: sh slug.sh TITLE" > USAGE.md
echo "I was told what was decided, and do the next task: $task. Done."
