// Lint: types decide most things; what is here are the house rules that a compiler doesn't know.
import tseslint from 'typescript-eslint'

// Protocol code gets time and randomness injected; only the ports' implementations touch the real ones.
const injectedOnly = [
  { object: 'Date', property: 'now', message: 'Use the injected Clock.' },
  { object: 'performance', property: 'now', message: 'Use the injected Clock.' },
  { object: 'Math', property: 'random', message: 'Use the injected Random.' },
]
const timers = ['setTimeout', 'setInterval', 'setImmediate'].map((name) => ({
  name,
  message: 'Use the injected Clock.',
}))

export default tseslint.config(
  {
    ignores: [
      '**/dist/**',
      '**/node_modules/**',
      '.cache/**',
      '**/build/**',
      '.turbo/**',
      'docs/**',
    ],
  },
  ...tseslint.configs.recommended,
  {
    files: ['**/*.ts'],
    languageOptions: {
      parserOptions: { project: './tsconfig.json', tsconfigRootDir: import.meta.dirname },
    },
    rules: {
      '@typescript-eslint/switch-exhaustiveness-check': 'error',
      '@typescript-eslint/no-floating-promises': 'error',
      '@typescript-eslint/no-misused-promises': [
        'error',
        { checksVoidReturn: { arguments: false } },
      ],
      '@typescript-eslint/consistent-type-imports': 'error',
      'max-lines': ['error', { max: 300, skipBlankLines: true, skipComments: true }],
      eqeqeq: 'error',
    },
  },
  {
    files: ['packages/{connector-*,kv-history}/src/**/*.ts'],
    rules: {
      'no-restricted-properties': ['error', ...injectedOnly],
      'no-restricted-globals': ['error', ...timers],
    },
  },
)
