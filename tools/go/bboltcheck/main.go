// SPDX-License-Identifier: Apache-2.0

// bboltcheck FILE...: what bbolt itself makes of a file. One line each: SHA-256 over every
// bucket name, key and value in order, each with its length in front, and the number of keys.
// Fails if bbolt's own check finds anything. test/peers/boltwalk.c prints the same of our reader.
package main

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"os"

	"go.etcd.io/bbolt"
)

func add(h hash.Hash, b []byte) {
	var n [8]byte
	binary.LittleEndian.PutUint64(n[:], uint64(len(b)))
	h.Write(n[:])
	h.Write(b)
}

func read(path string) error {
	db, err := bbolt.Open(path, 0o400, &bbolt.Options{ReadOnly: true, PreLoadFreelist: true})
	if err != nil {
		return err
	}
	defer db.Close()
	h, items := sha256.New(), 0
	err = db.View(func(tx *bbolt.Tx) error {
		var found error
		for problem := range tx.Check() {
			found = problem
		}
		if found != nil {
			return found
		}
		return tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
			add(h, name)
			return b.ForEach(func(k, v []byte) error {
				add(h, k)
				add(h, v)
				items++
				return nil
			})
		})
	})
	if err == nil {
		fmt.Printf("%x %d\n", h.Sum(nil), items)
	}
	return err
}

func main() {
	for _, path := range os.Args[1:] {
		if err := read(path); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", path, err)
			os.Exit(1)
		}
	}
}
