// Package wire has what the generated packages share.
package wire

// Buffer is a growing sequence of octets.
type Buffer []byte
