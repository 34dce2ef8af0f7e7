package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/writ-pdp/writ/keyring"
)

// The files of a replica's keys.
const (
	rootPublicFile = "root.pub"    // the deployment root's public key, PEM
	replicaFile    = "replica.key" // the replica's own key, PEM, mode 0600
	statementFile  = "replica.jws" // the root's statement of it
)

type keysCmd struct {
	Root    rootKeyCmd    `cmd:"" help:"Make the root key of a deployment, which certifies its replicas and signs nothing else."`
	Replica replicaKeyCmd `cmd:"" help:"Make a replica's key, and have the root certify it."`
}

type rootKeyCmd struct {
	File string `arg:"" help:"File for the private key. Keep it off every server: it is needed only to certify."`
}

func (k *rootKeyCmd) Run(c *console) error {
	key, err := createKey(k.File)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.out, "root key %s in %s\n", key.ID(), k.File)
	return nil
}

// createKey makes a key and its file, which must not be there yet.
func createKey(file string) (*keyring.Key, error) {
	key, err := keyring.CreateKey(file)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("there is a file %s already, and a key is never written over: name another place", file)
	}
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	return key, nil
}

type replicaKeyCmd struct {
	Name string `arg:"" help:"Names the replica: letters, digits, -, _ and dots."`
	Dir  string `arg:"" help:"Directory for root.pub, replica.key and replica.jws, made where it is missing: --replica-keys of serve."`

	Root     string        `required:"" help:"File of the root's private key, as pdp keys root makes it." placeholder:"FILE"`
	Valid    time.Duration `help:"How long the key is certified." default:"2160h"`
	Instance string        `help:"Certify it for this decision point alone: instance of GetKeys. Default: any that trusts the root." placeholder:"NAME"`
}

func (*replicaKeyCmd) Help() string {
	return `Replicas share one ledger in etcd, so each must know what the others have
signed: each has a key of its own, and the root's word for it.

  pdp keys root root.key
  pdp keys replica one one-keys --root root.key
  pdp serve --etcd … --replica-keys one-keys

Renew a key before it ends: make one in another directory, and move its files
over the old ones, replica.key last. The server takes it up without a restart;
what the old key signed stays good.`
}

func (k *replicaKeyCmd) Run(c *console) error {
	root, err := keyring.ReadKey(k.Root)
	if err != nil {
		return fmt.Errorf("reading the root's key (--root names its file; pdp keys root makes one): %w", err)
	}
	if err := os.MkdirAll(k.Dir, 0o700); err != nil {
		return err
	}
	file := filepath.Join(k.Dir, replicaFile)
	key, err := createKey(file)
	if err != nil {
		return err
	}
	now := time.Now()
	statement, err := keyring.CertifyReplica(root, keyring.Replica{
		Name: k.Name, Public: key.Public(), Instance: k.Instance, IssuedAt: now, ExpiresAt: now.Add(k.Valid),
	})
	if err != nil {
		os.Remove(file) // nobody has certified it, and it would be in the way
		return err
	}
	public, err := keyring.MarshalPublic(root.Public())
	if err != nil {
		return err
	}
	for name, text := range map[string][]byte{statementFile: []byte(statement + "\n"), rootPublicFile: public} {
		if err := os.WriteFile(filepath.Join(k.Dir, name), text, 0o644); err != nil {
			return err
		}
	}
	fmt.Fprintf(c.out, "key %s of replica %s, certified until %s, in %s\n", key.ID(), k.Name, now.Add(k.Valid).UTC().Format(time.RFC3339), k.Dir)
	return nil
}
