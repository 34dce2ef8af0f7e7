package bundle

import (
	"archive/tar"
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The files of a source's state.
const (
	stateName = "source.json"
	keptName  = "last-good.tar"
	aboutName = ".about.json" // the archive's first member; hidden, so no file of a bundle
)

// confirming is how often it is noted that the kept bundle is the newest.
const confirming = time.Minute

// state is what of a directory's source outlives the process: its name, how
// many bundles it has given, and the last good one where that is kept.
type state struct {
	dir   string
	fresh bool // this process has given Generation to Bundle, which never was in force

	// Source names the source, made when the state is.
	Source string `json:"source"`
	// Generation is the greatest number that any bundle may have been in force
	// as, and Bundle the content that it stands for.
	Generation uint64 `json:"generation"`
	Bundle     string `json:"bundle,omitempty"`
	// ConfirmedAt is when the directory last held the bundle that is kept, to a
	// minute.
	ConfirmedAt time.Time `json:"confirmed_at,omitzero"`
}

// about says what an archive holds.
type about struct {
	Bundle string `json:"bundle"` // what revisions name its content by
	Dir    string `json:"dir"`    // where it was read
}

// openState opens the state in dir, or begins one.
func openState(dir string) (*state, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	s := &state{dir: dir}
	path := filepath.Join(dir, stateName)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		s.Source = strings.ToLower(rand.Text()[:16])
		return s, s.save()
	}
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	err = d.Decode(s)
	if err == nil && (!sourceName.MatchString(s.Source) || s.Generation > 0 && s.Bundle == "") {
		err = errors.New("it lacks something")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: restore it, or remove it, which begins a new source: nothing is as fresh then as revisions that clients have seen", path, err)
	}
	return s, nil
}

// number returns the generation of a content, durably: the one that it has,
// or the next one.
func (s *state) number(content string) (uint64, error) {
	if content == s.Bundle {
		return s.Generation, nil
	}
	was := *s
	s.Bundle = content
	if !s.fresh {
		s.Generation, s.fresh = s.Generation+1, true
	}
	if err := s.save(); err != nil {
		// What the disk holds is unknown; both are in order.
		*s = was
		return 0, err
	}
	return s.Generation, nil
}

// used says that what was numbered last is in force.
func (s *state) used() { s.fresh = false }

// confirm notes, now and then, that the directory holds what is kept.
func (s *state) confirm(t time.Time) error {
	if since := t.Sub(s.ConfirmedAt); since >= 0 && since < confirming {
		return nil
	}
	s.ConfirmedAt = t.UTC()
	return s.save()
}

func (s *state) save() error {
	return replace(filepath.Join(s.dir, stateName), func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(s)
	})
}

// keep keeps a bundle in the place of the one before.
func (s *state) keep(dir string, files []File, content string) error {
	return replace(filepath.Join(s.dir, keptName), func(w io.Writer) error {
		head, err := json.Marshal(about{Bundle: content, Dir: dir})
		if err != nil {
			return err
		}
		archive := tar.NewWriter(w)
		for i, f := range append([]File{{Name: aboutName, Data: head}}, files...) {
			if i > 0 && ignored(f.Name) {
				continue
			}
			data, err := f.Content()
			if err != nil {
				return fmt.Errorf("%s: %w", f.Name, err)
			}
			header := &tar.Header{Name: f.Name, Size: int64(len(data)), Mode: 0o600}
			if err := archive.WriteHeader(header); err != nil {
				return err
			}
			if _, err := archive.Write(data); err != nil {
				return err
			}
		}
		return archive.Close()
	})
}

// forget makes sure that no bundle is kept.
func (s *state) forget() error {
	if err := os.Remove(filepath.Join(s.dir, keptName)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// kept reads the kept bundle of a directory, and checks it against its digest
// and its age.
func (s *state) kept(dir string, maxAge time.Duration) ([]File, error) {
	f, err := os.Open(filepath.Join(s.dir, keptName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("none has been kept yet")
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	head, files, err := readKept(f)
	switch age := time.Since(s.ConfirmedAt); {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	case head.Dir != dir:
		return nil, fmt.Errorf("the one that was kept is of %s", head.Dir)
	case contentOf(files) != head.Bundle:
		return nil, fmt.Errorf("%s: its content is not what was kept: it is damaged", f.Name())
	case age > maxAge:
		return nil, fmt.Errorf("the one that was kept is too old: its directory last held it at %s, and %v is allowed (--max-age)",
			s.ConfirmedAt.Format(time.RFC3339), maxAge)
	case age < -confirming:
		return nil, fmt.Errorf("the one that was kept is of the future, %s: the clock was set back", s.ConfirmedAt.Format(time.RFC3339))
	}
	return files, nil
}

// readKept reads an archive. No more is read than a bundle may hold.
func readKept(r io.Reader) (head about, files []File, err error) {
	archive := tar.NewReader(bufio.NewReader(io.LimitReader(r, maxTotal+MaxFiles*4096)))
	for {
		header, err := archive.Next()
		switch {
		case errors.Is(err, io.EOF) && head.Bundle != "":
			return head, files, nil
		case err != nil:
			return about{}, nil, fmt.Errorf("it is no whole archive: %w", err)
		case header.Typeflag != tar.TypeReg || header.Size > int64(sizeOf(header.Name)) || len(files) > MaxFiles:
			return about{}, nil, errors.New("it holds what no bundle holds")
		}
		data, err := io.ReadAll(archive)
		switch {
		case err != nil:
			return about{}, nil, fmt.Errorf("it is no whole archive: %w", err)
		case head.Bundle != "":
			files = append(files, File{Name: header.Name, Data: data})
		case header.Name != aboutName:
			return about{}, nil, errors.New("it does not begin with what it holds")
		default:
			if err := json.Unmarshal(data, &head); err != nil || head.Bundle == "" {
				return about{}, nil, errors.Join(errors.New("it does not say what it holds"), err)
			}
		}
	}
}

// replace writes a file in the place of the one with its name, so that after a
// crash there is the one or the other, whole.
func replace(path string, write func(io.Writer) error) (err error) {
	dir, name := filepath.Split(path)
	temporary := filepath.Join(dir, "."+name+".new")
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	err = write(w)
	if err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	d, err := os.Open(filepath.Clean(dir))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
