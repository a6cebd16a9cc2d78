#!/bin/sh
# Exits 0 when slug.sh does what it says.
failed=0
expect() {
    got=$(sh slug.sh "$1")
    if [ "$got" = "$2" ]; then
        echo "ok    '$1' -> $got"
    else
        echo "FAIL  '$1' -> $got, wanted $2"
        failed=1
    fi
}
expect "Hello, World" "hello-world"
expect "  A  quick   brown fox " "a-quick-brown-fox"
expect "done" "done"
exit $failed
