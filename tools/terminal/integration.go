package terminal

// The integration scripts. All marks are ESC ] 133 ; KIND [; VALUE] ; SECRET
// BEL. Prompts refer to the variable instead of holding its value, so that
// even an exported PS1 tells a child process nothing.

// bashScript comes from descriptor 3 as the rcfile; bash has read all of it
// before it runs the first line. History expansion is off because a command
// has to mean what it says: "!" in it would be replaced before it runs.
const bashScript = `exec 3<&-
[ -f ~/.bashrc ] && . ~/.bashrc
set +aH
unset __lomi_v
__lomi_v=SECRET
__lomi_c=0
if (( BASH_VERSINFO[0] > 4 || BASH_VERSINFO[0] == 4 && BASH_VERSINFO[1] >= 4 )); then __lomi_c=1; fi
__lomi_begin() {
  __lomi_s=$?
  { local -; set +x; } 2>/dev/null
  { builtin printf '\e]133;D;%s;%s\a' "$__lomi_s" "$__lomi_v" >/dev/tty; } 2>/dev/null
  return "$__lomi_s"
}
__lomi_end() {
  { local -; set +x; } 2>/dev/null
  if [[ ${PS1-} != *'133;B;$__lomi_v'* ]]; then
    PS1='\[\e]133;A;$__lomi_v\a\]'"${PS1-}"'\[\e]133;B;$__lomi_v\a\]'
  fi
  if [[ ${PS2-} != *'133;P;$__lomi_v'* ]]; then PS2="${PS2-}"'\[\e]133;P;$__lomi_v\a\]'; fi
  if (( __lomi_c )) && [[ ${PS0-} != *'133;C;$__lomi_v'* ]]; then PS0="${PS0-}"'\e]133;C;$__lomi_v\a'; fi
  return "$__lomi_s"
}
if (( BASH_VERSINFO[0] > 5 || BASH_VERSINFO[0] == 5 && BASH_VERSINFO[1] >= 1 )); then
  PROMPT_COMMAND=(__lomi_begin "${PROMPT_COMMAND[@]}" __lomi_end)
else
  PROMPT_COMMAND=__lomi_begin$'\n'"${PROMPT_COMMAND-}"$'\n'__lomi_end
fi
export -n PROMPT_COMMAND PS0 PS1 PS2 __lomi_v __lomi_s __lomi_c
shopt -s promptvars
bind 'set enable-bracketed-paste on' 2>/dev/null
bind 'set enable-active-region off' 2>/dev/null
builtin printf '\e]133;I;%s;%s\a' "$__lomi_c" "$__lomi_v"
`

// zshEnv takes the secret before any line of the user runs, and then reads
// the user's files as if there were no folder of ours.
const zshEnv = `IFS= read -r -u 3 __lomi_v
exec 3<&-
__lomi_dir=$ZDOTDIR
if [[ -n $USER_ZDOTDIR ]]; then ZDOTDIR=$USER_ZDOTDIR; else unset ZDOTDIR; fi
unset USER_ZDOTDIR
[[ -f ${ZDOTDIR:-$HOME}/.zshenv ]] && . ${ZDOTDIR:-$HOME}/.zshenv
__lomi_user=${ZDOTDIR-}
ZDOTDIR=$__lomi_dir
`

// zshRC installs hooks instead of changing prompts. Each of ours runs with
// zsh's own options, whatever the user has set, and without a trace, which
// would hold the secret. Marks go to the terminal even where the output of the
// shell itself was sent elsewhere. The partial-line sign is off because it
// would print into every command's output. A function called precmd runs
// before all hooks, so what it prints counts as the command's. The user's
// own line widget is called by ours, also one that is set later; it may in turn
// hold ours.
const zshRC = `if [[ -n $__lomi_user ]]; then ZDOTDIR=$__lomi_user; else unset ZDOTDIR; fi
if [[ -n ${HISTFILE-} ]]; then HISTFILE=${HISTFILE/#$__lomi_dir\//${ZDOTDIR:-$HOME}\/}; fi
unset __lomi_dir __lomi_user
[[ -f ${ZDOTDIR:-$HOME}/.zshrc ]] && . ${ZDOTDIR:-$HOME}/.zshrc
{ unsetopt all_export prompt_sp bang_hist } 2>/dev/null
typeset -g +x __lomi_v
__lomi_mark() {
  { emulate -L zsh +x } 2>/dev/null
  { builtin printf '\e]133;%s;%s\a' $1 $__lomi_v >/dev/tty } 2>/dev/null
}
__lomi_precmd() {
  { local s=$?; emulate -L zsh +x } 2>/dev/null
  __lomi_mark "D;$s"
  __lomi_mark A
  __lomi_hook
}
__lomi_preexec() { __lomi_mark C }
__lomi_line() {
  if [[ -n ${__lomi_deep-} ]]; then return 0; fi
  local __lomi_deep=1
  if [[ -n ${widgets[__lomi_own_line]-} ]]; then zle __lomi_own_line; fi
  { emulate -L zsh +x } 2>/dev/null
  case $CONTEXT in
    (start) __lomi_mark B;;
    (cont) __lomi_mark P;;
  esac
}
__lomi_hook() {
  { emulate -L zsh +x } 2>/dev/null
  typeset -ga precmd_functions preexec_functions zle_highlight
  precmd_functions=(__lomi_precmd ${precmd_functions:#__lomi_precmd})
  preexec_functions=(${preexec_functions:#__lomi_preexec} __lomi_preexec)
  zle_highlight=(${zle_highlight:#paste:*} paste:none)
  if [[ ${widgets[zle-line-init]-} != user:__lomi_line ]]; then
    if [[ -n ${widgets[zle-line-init]-} ]]; then zle -A zle-line-init __lomi_own_line; fi
    zle -N zle-line-init __lomi_line
  fi
}
zmodload zsh/zleparameter 2>/dev/null
__lomi_hook
__lomi_mark "I;1"
`

// shScript is for shells with neither hooks nor an editor: everything rides
// in the prompt, and there is no mark for the start of a command.
const shScript = `exec 3<&-
ENV=USERENV
if [ -n "$ENV" ]; then export ENV; [ -f "$ENV" ] && . "$ENV"; else unset ENV; fi
set +a
__lomi_v=SECRET
PS1='ESC]133;D;$?;${__lomi_v}BELESC]133;A;${__lomi_v}BEL'"${PS1-\$ }"'ESC]133;B;${__lomi_v}BEL'
PS2="${PS2-> }"'ESC]133;P;${__lomi_v}BEL'
printf 'ESC]133;I;0;%sBEL' "$__lomi_v"
`
