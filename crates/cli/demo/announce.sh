#!/bin/sh
# Something that must not happen twice: one line for each announcement. Then it takes its time.
echo "announced: slug.sh is being mended" >> announcements.log
sleep 60
