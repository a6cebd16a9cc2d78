#!/bin/sh
# Exits 0 when slug.sh does what it says.
cases=0 failed=0
expect() {
    cases=$((cases + 1))
    got=$(sh slug.sh "$1")
    if [ "$got" = "$2" ]; then
        echo "ok    '$1' -> $got"
    else
        echo "FAIL  '$1' -> $got, wanted $2"
        failed=$((failed + 1))
    fi
}
expect "Hello, World" "hello-world"
expect "  A  quick   brown fox " "a-quick-brown-fox"
expect "done" "done"
echo "$failed of $cases cases fail"
[ "$failed" -eq 0 ]
