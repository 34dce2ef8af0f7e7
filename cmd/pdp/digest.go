package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/definition"
)

type digestCmd struct {
	Kind   string     `enum:"definition,json,contract" default:"definition" help:"What to digest: ${enum}. definition: a Tool object or a tools/list result. json: any JSON, in canonical form (RFC 8785). contract: every contract of --bundle."`
	Bundle *directory `help:"Directory of the bundle whose contracts are digested." placeholder:"DIR"`
	JSON   bool       `help:"Print one JSON object a line."`
	File   string     `arg:"" optional:"" help:"File to read; - or nothing is standard input." default:"-"`
}

func (d *digestCmd) Help() string {
	return `Examples:
  pdp digest servers/files.tools.json             one line a tool: digest, name
  pdp digest --kind json call.json                SHA-256 of the canonical form
  pdp digest --kind contract --bundle DIR         one line a reviewed tool`
}

func (d *digestCmd) Run(c *console) error {
	if d.Kind == "contract" {
		return d.contracts(c)
	}
	data, err := readInput(c, d.File)
	if err != nil {
		return err
	}
	if d.Kind == "json" {
		v, err := canon.Parse(data)
		if err != nil {
			return fmt.Errorf("%s: %w", name(d.File), err)
		}
		return d.print(c, canon.Sum(canon.Append(nil, v)), name(d.File))
	}
	tools, err := definition.ParseList(data)
	if err != nil {
		tool, single := definition.Parse(data)
		if single != nil {
			return fmt.Errorf("%s is neither a tools/list result (%w) nor a Tool object (%w)", name(d.File), err, single)
		}
		tools = []*definition.Tool{tool}
	}
	for _, t := range tools {
		if err := d.print(c, t.Digest, t.Name); err != nil {
			return err
		}
	}
	return nil
}

func (d *digestCmd) contracts(c *console) error {
	if d.Bundle == nil {
		return usage("--kind contract needs --bundle DIR")
	}
	b, err := loadBundle(c, d.Bundle)
	if err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(b.Snapshot.Contracts)) {
		if err := d.print(c, b.Snapshot.Contracts[id].Digest, id); err != nil {
			return err
		}
	}
	return nil
}

func (d *digestCmd) print(c *console, sum canon.Digest, of string) error {
	if !d.JSON {
		_, err := fmt.Fprintf(c.out, "%s  %s\n", sum, of)
		return err
	}
	return json.NewEncoder(c.out).Encode(map[string]string{"kind": d.Kind, "name": of, "digest": sum.String()})
}

// maxInput is the most that a command reads: a whole tools/list result.
const maxInput = 32 << 20

func readInput(c *console, file string) ([]byte, error) {
	in := c.in
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maxInput+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name(file), err)
	}
	if len(data) > maxInput {
		return nil, fmt.Errorf("%s has more than %d bytes", name(file), maxInput)
	}
	return data, nil
}

func name(file string) string {
	if file == "-" {
		return "standard input"
	}
	return file
}
