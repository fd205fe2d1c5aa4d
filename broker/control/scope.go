package control

// Scope is one thing that a person can allow.
type Scope string

// The 54 scopes (broker spec 2.1).
const (
	ChatRead                Scope = "chat.read"
	ChatOpen                Scope = "chat.open"
	ChatCreate              Scope = "chat.create"
	ChatDraft               Scope = "chat.draft"
	ChatSend                Scope = "chat.send"
	ChatStop                Scope = "chat.stop"
	ChatExport              Scope = "chat.export"
	SettingsOpen            Scope = "settings.open"
	SettingsRead            Scope = "settings.read"
	SettingsWrite           Scope = "settings.write"
	FilesRead               Scope = "files.read"
	FilesMutate             Scope = "files.mutate"
	FilesCreate             Scope = "files.create"
	FilesRename             Scope = "files.rename"
	FilesTrash              Scope = "files.trash"
	EditorRead              Scope = "editor.read"
	EditorWrite             Scope = "editor.write"
	GitRead                 Scope = "git.read"
	GitWrite                Scope = "git.write"
	GitExecute              Scope = "git.execute"
	GitNetwork              Scope = "git.network"
	GitPush                 Scope = "git.push"
	GitPull                 Scope = "git.pull"
	GitDiscard              Scope = "git.discard"
	ArtifactImport          Scope = "artifact.import"
	ArtifactImportFile      Scope = "artifact.import_file"
	ArtifactExport          Scope = "artifact.export"
	AndroidRead             Scope = "android.read"
	AndroidControl          Scope = "android.control"
	AndroidInteract         Scope = "android.interact"
	AndroidObserve          Scope = "android.observe"
	AndroidCapture          Scope = "android.capture"
	AndroidLaunch           Scope = "android.launch"
	AndroidLogs             Scope = "android.logs"
	AndroidInstall          Scope = "android.install"
	AndroidSetup            Scope = "android.setup"
	AndroidManage           Scope = "android.manage"
	WorkspaceRead           Scope = "workspace.read"
	WorkspaceWrite          Scope = "workspace.write"
	WorkspaceClose          Scope = "workspace.close"
	ProjectOpen             Scope = "project.open"
	ProjectClose            Scope = "project.close"
	PanelCreate             Scope = "panel.create"
	PanelFocus              Scope = "panel.focus"
	PanelClose              Scope = "panel.close"
	PanelMove               Scope = "panel.move"
	TerminalRead            Scope = "terminal.read"
	TerminalExecute         Scope = "terminal.execute"
	BrowserNavigate         Scope = "browser.navigate"
	BrowserRead             Scope = "browser.read"
	BrowserInteract         Scope = "browser.interact"
	BrowserCaptureComposite Scope = "browser.capture_composite"
	BrowserDownload         Scope = "browser.download"
	BrowserUpload           Scope = "browser.upload"
)

// Scopes lists all 54, in the order of the specification.
func Scopes() []Scope {
	return []Scope{
		ChatRead, ChatOpen, ChatCreate, ChatDraft, ChatSend, ChatStop, ChatExport,
		SettingsOpen, SettingsRead, SettingsWrite,
		FilesRead, FilesMutate, FilesCreate, FilesRename, FilesTrash,
		EditorRead, EditorWrite,
		GitRead, GitWrite, GitExecute, GitNetwork, GitPush, GitPull, GitDiscard,
		ArtifactImport, ArtifactImportFile, ArtifactExport,
		AndroidRead, AndroidControl, AndroidInteract, AndroidObserve, AndroidCapture,
		AndroidLaunch, AndroidLogs, AndroidInstall, AndroidSetup, AndroidManage,
		WorkspaceRead, WorkspaceWrite, WorkspaceClose,
		ProjectOpen, ProjectClose,
		PanelCreate, PanelFocus, PanelClose, PanelMove,
		TerminalRead, TerminalExecute,
		BrowserNavigate, BrowserRead, BrowserInteract, BrowserCaptureComposite, BrowserDownload, BrowserUpload,
	}
}
