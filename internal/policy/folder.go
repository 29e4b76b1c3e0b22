package policy

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
)

// ReadFolder reads every *.yaml file of a folder and returns the policies by name.
// Two files of one name are refused, and so is a folder without any; the error says of
// every file what is wrong with it.
func ReadFolder(folder fs.FS) (map[string]Policy, error) {
	files, err := fs.Glob(folder, "*.yaml")
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("policy: the folder holds no *.yaml file")
	}
	byName, problems := map[string]Policy{}, []error(nil)
	for _, file := range files {
		data, err := fs.ReadFile(folder, file)
		if err != nil {
			return nil, err
		}
		p, err := Parse(path.Base(file), data)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		if _, taken := byName[p.Name]; taken {
			problems = append(problems, fmt.Errorf("policy: %s: another file has the name %s", file, p.Name))
		}
		byName[p.Name] = p
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return byName, nil
}
