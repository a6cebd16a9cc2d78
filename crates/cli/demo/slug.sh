#!/bin/sh
# Turns a title into a file name: "Hello, World" -> "hello-world"
printf '%s\n' "$1" | tr ' ' '-'
